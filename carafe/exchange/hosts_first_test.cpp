// Sums inside hosts first: for any layout of the ranks on hosts, every scheme and algorithm makes
// the sums of the tree over the hosts of the trees over their ranks. The bytes: sim_bytes_test.cpp.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "carafe/comm/sim_transport.h"
#include "carafe/exchange/exchange.h"
#include "tests/support/exchange_values.h"
#include "tests/support/host_of_rank.h"
#include "tests/support/sim_cluster.h"
#include "tests/support/tree_by_hand.h"

namespace carafe {
namespace {

struct Way {
  std::string scheme;
  SchemeSettings settings;
};

const std::vector<Way>& Ways() {
  static const std::vector<Way> ways = {{"allreduce", {}},
                                        {"allreduce", {.algorithm = "owners"}},
                                        {"allreduce", {.algorithm = "halving"}},
                                        {"server", {}},
                                        {"server", {.timeout = 1e9}},
                                        {"tree", {}},
                                        {"tree", {.branches = 3}}};
  return ways;
}

// Two to four hosts in any order, some possibly without a rank.
std::vector<std::string> RandomHosts(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto hosts = 2 + random() % 3;
  std::vector<std::string> names(2 + random() % 9);
  for (std::string& name : names) name = std::to_string(random() % hosts);
  return names;
}

// SimCluster compares every sum with the one made by hand in the order of the layout.
TEST(HostsFirst, SumsHaveTheOrderOfTheLayoutUnderAnySchedule) {
  int not_the_rank_tree = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    const std::vector<std::string> names = RandomHosts(seed);
    const int ranks = static_cast<int>(names.size());
    not_the_rank_tree += !HostLayout(names).is_rank_tree();
    Way way = Ways()[seed % Ways().size()];
    way.settings.hosts = HostLayout(names);
    way.settings.message_bytes = seed % 2 ? 64 : 4096;
    SimNetwork network(ranks, {.jitter = seed % 3 ? 1e-3 : 1e-5, .seed = seed});
    // The first is tiny, the last is cut in many chunks; some segments are empty.
    SimCluster cluster({.scheme = way.scheme,
                        .settings = way.settings,
                        .ranks = ranks,
                        .counts = {3, 200, 1, 2000},
                        .steps = 2,
                        .backward = 1e-5,
                        .forward = 1e-5},
                       network);
    cluster.Run();
    const std::string what = fmt::format("{} {} on {}, seed {}", way.scheme, way.settings.algorithm,
                                         fmt::join(names, " "), seed);
    ASSERT_TRUE(cluster.complete()) << what;
    ASSERT_EQ(cluster.wrong(), 0) << what;
  }
  EXPECT_GT(not_the_rank_tree, 200);
}

// More hosts than owners may be: halving between the hosts.
TEST(HostsFirst, ManyHostsSumInTheOrderOfTheLayout) {
  for (int local : {2, 3, 5}) {
    const int ranks = 20 * local - 1;
    SimNetwork network(ranks);
    SimCluster cluster({.settings = {.hosts = HostLayout::Even(ranks, local)},
                        .ranks = ranks,
                        .counts = {5000, 7},
                        .steps = 2},
                       network);
    cluster.Run();
    ASSERT_TRUE(cluster.complete()) << local;
    ASSERT_EQ(cluster.wrong(), 0) << local;
  }
}

TEST(HostsFirst, EveryExchangeGivesTheSameBitsOnRanksThatAreThreads) {
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{"a", "a", "a", "b", "b", "b"},
        {"a", "a", "a", "b", "b"},
        {"a", "b", "b", "b", "b"},
        {"a", "b", "a", "b", "c"}}) {
    const int ranks = static_cast<int>(names.size());
    std::vector<float> first;
    for (const Way& way : Ways())
      for (int workers : {1, 2}) {
        const std::vector<float> values = RunValues({.exchange = way.scheme,
                                                     .ranks = ranks,
                                                     .workers = workers,
                                                     .settings = way.settings,
                                                     .link = OnHosts(names)})
                                              .values;
        if (workers == 2) continue;  // RunValues compares the replicas
        if (first.empty()) first = values;
        EXPECT_EQ(values, first) << way.scheme << " " << way.settings.algorithm << " on "
                                 << fmt::format("{}", fmt::join(names, " "));
      }
    // The layout has an order of its own.
    EXPECT_NE(first, RunValues({.ranks = ranks}).values);
  }
}

}  // namespace
}  // namespace carafe
