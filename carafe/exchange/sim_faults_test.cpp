// Faults under virtual time: messages that are lost, late, repeated or out of order, and ranks that
// die. A step that ends has the right sums (SimCluster compares them); one that does not is
// explained to every rank.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "carafe/comm/sim_transport.h"
#include "tests/support/sim_cluster.h"

namespace carafe {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = SimFault::Kind;

const char* const kSchemes[] = {"allreduce", "server", "tree"};

// Every scheme with all its algorithms.
struct Way {
  std::string scheme;
  SchemeSettings settings;
  int local = 0;         // ranks of a host, neighbours; the last host may have fewer. 0: no hosts
  bool gathers = false;  // factors instead of sums
};
const std::vector<Way>& Ways() {
  static const std::vector<Way> ways = [] {
    std::vector<Way> all;
    for (const char* algorithm : {"auto", "owners", "halving"})
      all.push_back({"allreduce", {.algorithm = algorithm}});
    all.push_back({"allreduce", {}, 2});
    all.push_back({"server", {}});
    all.push_back({"server", {}, 2});
    all.push_back({"server", {.timeout = 10}});  // nobody is late, but dead ranks never come
    all.push_back({"tree", {}});
    all.push_back({"tree", {.branches = 3}, 2});
    all.push_back({"allreduce", {}, 3});
    all.push_back({"server", {}, 3});
    all.push_back({"tree", {}, 3});
    all.push_back({"allreduce", {}, 0, true});
    all.push_back({"allreduce", {}, 2, true});
    all.push_back({"allreduce", {}, 3, true});
    for (Way& way : all) way.settings.message_bytes = 2000;
    return all;
  }();
  return ways;
}

SimCluster::Setup Steps(const Way& way, int ranks) {
  SchemeSettings settings = way.settings;
  if (way.local > 0) settings.hosts = HostLayout::Even(ranks, way.local);
  return {.scheme = way.scheme,
          .settings = settings,
          .ranks = ranks,
          .counts = {1500, 70, 3},
          .steps = 3,
          .backward = 2e-5,
          .forward = 1e-5,
          .gathers = way.gathers};
}

TEST(SimFaults, ALostMessageHoldsTheStepAndItsSenderIsNamed) {
  for (const char* scheme : kSchemes) {
    SimNetwork network(4, {}, {{SimFault::Kind::kDrop, 1, 0, 3}});
    SimCluster cluster({.scheme = scheme, .ranks = 4, .counts = {3000, 70}, .steps = 4}, network);
    cluster.Run();
    EXPECT_FALSE(cluster.complete()) << scheme;
    EXPECT_THAT(cluster.WaitsFor(0), ::testing::Contains(1)) << scheme;
  }
}

TEST(SimFaults, ARankThatDiesIsNoticedByThoseThatWaitForIt) {
  for (const char* scheme : kSchemes)
    for (int64_t message = 0; message < 12; ++message) {
      SimNetwork network(4, {}, {{SimFault::Kind::kKill, 1, 0, message}});
      SimCluster cluster({.scheme = scheme, .ranks = 4, .counts = {3000, 70}, .steps = 4}, network);
      cluster.Run();
      ASSERT_TRUE(network.dead(1));
      EXPECT_FALSE(cluster.complete());
      ASSERT_TRUE(cluster.error(0).has_value()) << scheme << ", message " << message;
      EXPECT_THAT(*cluster.error(0), ::testing::HasSubstr("rank 1 is lost"));
    }
}

TEST(SimFaults, ADelayedMessageDelaysAndNoMore) {
  for (const char* scheme : kSchemes) {
    SimNetwork network(3, {}, {{SimFault::Kind::kDelay, 1, 0, 2, 5.0}});
    SimCluster cluster({.scheme = scheme, .ranks = 3, .counts = {3000, 70}, .steps = 3}, network);
    cluster.Run();
    EXPECT_TRUE(cluster.complete());
    EXPECT_GT(network.now(), 5.0);
  }
}

// How the faults of one message end: for every way, each of the first messages of rank 1 to rank 0
// and of rank 0 to rank 1.
struct Ends {
  int complete = 0;
  int refused = 0;  // by name: the receiver says which message of whom came instead of which
};
Ends EndsOf(Kind kind) {
  Ends ends;
  for (const Way& way : Ways()) {
    // A rank that has refused is late forever, and left out: SimCluster reports errors to nobody.
    if (way.settings.timeout >= 0) continue;
    for (int from : {0, 1})
      for (int64_t message = 0; message < 40; ++message) {
        SCOPED_TRACE(fmt::format("{} {}, message {} of rank {}", way.scheme, way.settings.algorithm,
                                 message, from));
        SimNetwork network(4, {}, {{kind, from, 1 - from, message}});
        SimCluster cluster(Steps(way, 4), network);
        cluster.Run();
        EXPECT_EQ(cluster.wrong(), 0);
        if (cluster.complete()) {
          EXPECT_EQ(cluster.failures(), 0);
          ++ends.complete;
          continue;
        }
        const std::string error = cluster.error(1 - from).value_or("nothing: it waits for ever");
        EXPECT_THAT(error, HasSubstr(fmt::format(" of rank {} came where message ", from)));
        EXPECT_THAT(cluster.Unaware(), IsEmpty());
        ++ends.refused;
      }
  }
  return ends;
}

TEST(SimFaults, MessagesOutOfOrderAreRefusedByNameOrHarmless) {
  const Ends ends = EndsOf(Kind::kReorder);
  EXPECT_GT(ends.refused, 100) << "headers follow each other under one tag";
  EXPECT_GT(ends.complete, 100) << "payloads have tags of their own";
}

TEST(SimFaults, ARepeatedMessageIsRefusedByNameOrHarmless) {
  const Ends ends = EndsOf(Kind::kDuplicate);
  EXPECT_GT(ends.refused, 100);
  EXPECT_GT(ends.complete, 100);
}

// The fault itself: of two messages of one tag the second comes first; one that is not followed
// still comes.
TEST(SimFaults, ReorderedMessagesChangePlaces) {
  SimNetwork network(2, {}, {{Kind::kReorder, 0, 1, 1}, {Kind::kReorder, 0, 1, 4}});
  const int sent[] = {10, 11, 12, 13, 14};
  int got[] = {0, 0, 0, 0, 0};
  std::vector<Transport::Request> requests;
  for (const int& content : sent) network.transport(0).Send(1, 7, &content, sizeof content);
  for (int& content : got)
    requests.push_back(network.transport(1).Receive(0, 7, &content, sizeof content));
  network.Run([](int) {});
  for (Transport::Request request : requests) EXPECT_TRUE(network.transport(1).Done(request));
  EXPECT_THAT(got, ::testing::ElementsAre(10, 12, 11, 13, 14));
}

// Any rank, at any moment of the run or shortly after it.
TEST(SimFaults, WhoeverDiesWheneverEverySurvivorNoticesOrWaitsForANamedRank) {
  int died_in_time = 0;
  for (const Way& way : Ways())
    for (uint64_t seed = 1; seed <= 150; ++seed) {
      std::mt19937_64 random(seed);
      const int ranks =
          way.local == 2 ? 4 + static_cast<int>(seed % 3) * 2 : 2 + static_cast<int>(seed % 7);
      const SimOptions options{.jitter = seed % 2 ? 1e-4 : 0, .seed = seed};
      SimNetwork undisturbed(ranks, options);
      double end = 0;
      {
        SimCluster cluster(Steps(way, ranks), undisturbed);
        undisturbed.Watch([&](int, int, int, size_t) { end = undisturbed.now(); });
        cluster.Run();
        ASSERT_TRUE(cluster.complete());
      }
      const int victim = static_cast<int>(random() % static_cast<unsigned>(ranks));
      const double moment = std::uniform_real_distribution<>(0, end * 1.1)(random);
      SCOPED_TRACE(fmt::format("{} {} on {} ranks, seed {}: rank {} dies after {} of {} s",
                               way.scheme, way.settings.algorithm, ranks, seed, victim, moment,
                               end));
      SimNetwork network(ranks, options);
      SimCluster cluster(Steps(way, ranks), network);
      network.At(moment, victim, [&] { network.Kill(victim); });
      cluster.Run();
      ASSERT_TRUE(network.dead(victim));
      EXPECT_EQ(cluster.wrong(), 0);
      EXPECT_THAT(cluster.Unaware(), IsEmpty());
      for (int r = 0; r < ranks; ++r) {
        if (r == victim || !cluster.error(r)) continue;
        EXPECT_THAT(*cluster.error(r), HasSubstr(fmt::format("rank {} is lost", victim)));
      }
      if (!cluster.finished(victim)) {
        ++died_in_time;
        EXPECT_FALSE(cluster.complete());
      }
    }
  EXPECT_GT(died_in_time, 900) << "or the moments are not those of the run";
}

}  // namespace
}  // namespace carafe
