// Bytes under virtual time: those of the formulas, exactly, on a thousand ranks and for buckets of
// gigabytes. Contents are sizes only; n is the bytes of all gradients, P the ranks, H the hosts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <string>
#include <vector>

#include "carafe/comm/sim_transport.h"
#include "carafe/comm/tags.h"
#include "tests/support/sim_cluster.h"

namespace carafe {
namespace {

struct Bytes {
  std::vector<int64_t> sent, received;  // by rank
  std::vector<int64_t> left;            // by host: bytes to ranks of other hosts
  int64_t longest = 0;                  // of any message
};

// Of `steps` steps; payloads only, without headers and votes.
Bytes BytesOf(const SimCluster::Setup& setup) {
  Bytes bytes;
  const HostLayout hosts =
      setup.settings.hosts.known() ? setup.settings.hosts : HostLayout::Even(setup.ranks, 1);
  bytes.left.resize(static_cast<size_t>(hosts.hosts()));
  SimNetwork network(setup.ranks);
  network.Watch([&](int from, int to, int tag, size_t size) {
    if (tag < kExchangePayloadTag) return;
    bytes.longest = std::max(bytes.longest, static_cast<int64_t>(size));
    if (hosts.host_of(from) != hosts.host_of(to))
      bytes.left[static_cast<size_t>(hosts.host_of(from))] += static_cast<int64_t>(size);
  });
  SimCluster cluster(setup, network);
  cluster.Run();
  EXPECT_TRUE(cluster.complete()) << setup.scheme;
  EXPECT_EQ(cluster.wrong(), 0) << "votes";
  for (int r = 0; r < setup.ranks; ++r) {
    bytes.sent.push_back(cluster.engine(r).bytes_sent());
    bytes.received.push_back(cluster.engine(r).bytes_received());
  }
  return bytes;
}

constexpr int kSteps = 2;
const std::vector<int64_t> kCounts = {1024, 20480};  // divided by all that follows
constexpr int64_t kN = (1024 + 20480) * int64_t{sizeof(float)};

Bytes ManyRanks(const std::string& scheme, int ranks, const SchemeSettings& settings = {}) {
  return BytesOf({.scheme = scheme,
                  .settings = settings,
                  .ranks = ranks,
                  .counts = kCounts,
                  .steps = kSteps,
                  .payload = false});
}

void ExpectAll(const std::vector<int64_t>& bytes, int64_t expected) {
  for (size_t i = 0; i < bytes.size(); ++i) ASSERT_EQ(bytes[i], expected) << i;
}

TEST(SimBytes, HalvingAThousandAndTwentyFourRanks) {
  // 2 n (P-1)/P everywhere.
  const Bytes bytes = ManyRanks("allreduce", 1024);
  ExpectAll(bytes.sent, kSteps * 2 * (kN - kN / 1024));
  ExpectAll(bytes.received, kSteps * 2 * (kN - kN / 1024));
}

TEST(SimBytes, HalvingAThousandRanks) {
  // Blocks of 512 + 256 + 128 + 64 + 32 + 8: 2 n (B-1)/B in a block of B, and n/B for each
  // neighbouring block, up to the larger and down to the smaller one.
  const Bytes bytes = ManyRanks("allreduce", 1000);
  for (int first = 0; first < 1000;) {
    const int block = static_cast<int>(std::bit_floor(1000u - static_cast<unsigned>(first)));
    const int neighbours = (first > 0) + (first + block < 1000);
    for (int r = first; r < first + block; ++r)
      ASSERT_EQ(bytes.sent[static_cast<size_t>(r)],
                kSteps * (2 * (kN - kN / block) + neighbours * kN / block))
          << r;
    first += block;
  }
  EXPECT_EQ(std::accumulate(bytes.received.begin(), bytes.received.end(), int64_t{0}),
            std::accumulate(bytes.sent.begin(), bytes.sent.end(), int64_t{0}));
}

TEST(SimBytes, SumsInsideHostsFirst) {
  // 16 hosts of 8: 2 n (H-1)/H leave every host, and every rank sends 2 n (P-1)/P in all.
  const Bytes few = ManyRanks("allreduce", 128, {.hosts = HostLayout::Even(128, 8)});
  ExpectAll(few.left, kSteps * 2 * (kN - kN / 16));
  ExpectAll(few.sent, kSteps * 2 * (kN - kN / 128));
  // 128 hosts of 8 are halved, inside the hosts first.
  const Bytes many = ManyRanks("allreduce", 1024, {.hosts = HostLayout::Even(1024, 8)});
  ExpectAll(many.left, kSteps * 2 * (kN - kN / 128));
}

// Layouts of the ranks on hosts; n is divided by every number of ranks and hosts below.
struct Layout {
  const char* name;
  std::vector<std::string> hosts;
};
const std::vector<Layout>& Layouts() {
  static const std::vector<Layout> layouts = {
      {"2 x 3", {"a", "a", "a", "b", "b", "b"}},
      {"2 x 6", {"a", "a", "a", "a", "a", "a", "b", "b", "b", "b", "b", "b"}},
      {"3 + 2", {"a", "a", "a", "b", "b"}},
      {"1 + 4", {"a", "b", "b", "b", "b"}},
      {"3 x 3", {"a", "a", "a", "b", "b", "b", "c", "c", "c"}},
      {"2 x 2, interleaved", {"a", "b", "a", "b"}},
      {"4 + 1 + 2, mixed", {"a", "a", "b", "a", "c", "a", "c"}}};
  return layouts;
}

Bytes OnLayout(const std::string& scheme, const Layout& layout, SchemeSettings settings = {}) {
  settings.hosts = HostLayout(layout.hosts);
  return BytesOf({.scheme = scheme,
                  .settings = settings,
                  .ranks = static_cast<int>(layout.hosts.size()),
                  .counts = {7200, 21600},
                  .steps = kSteps,
                  .payload = false});
}
constexpr int64_t kLayoutN = (7200 + 21600) * int64_t{sizeof(float)};

TEST(SimBytes, SumsInsideHostsFirstForAnyLayout) {
  for (const Layout& layout : Layouts()) {
    SCOPED_TRACE(layout.name);
    const int64_t hosts = HostLayout(layout.hosts).hosts();
    const auto ranks = static_cast<int64_t>(layout.hosts.size());
    ExpectAll(OnLayout("allreduce", layout).left, kSteps * 2 * (kLayoutN - kLayoutN / hosts));
    // If asked for, flat: 2 n (P-1)/P from every rank.
    const Bytes flat = OnLayout("allreduce", layout, {.algorithm = "owners"});
    if (7200 % ranks == 0) ExpectAll(flat.sent, kSteps * 2 * (ranks - 1) * kLayoutN / ranks);

    const Bytes server = OnLayout("server", layout);
    const Bytes tree = OnLayout("tree", layout);
    for (int64_t h = 0; h < hosts; ++h) {
      EXPECT_EQ(server.left[static_cast<size_t>(h)], kSteps * (h == 0 ? hosts - 1 : 1) * kLayoutN);
      const int64_t children = std::clamp<int64_t>(hosts - (h * 2 + 1), 0, 2);
      EXPECT_EQ(tree.left[static_cast<size_t>(h)], kSteps * ((h > 0) + children) * kLayoutN);
    }
  }
}

TEST(SimBytes, ManyHostsOfThreeAreHalved) {
  // 64 hosts of 3: 2 n (H-1)/H leave every host.
  const Bytes bytes = BytesOf({.settings = {.hosts = HostLayout::Even(192, 3)},
                               .ranks = 192,
                               .counts = {3 * 64 * 50},
                               .steps = kSteps,
                               .payload = false});
  ExpectAll(bytes.left, kSteps * 2 * 63 * int64_t{3} * 50 * int64_t{sizeof(float)});
}

TEST(SimBytes, Owners) {
  // 2 n (P-1)/P for any P.
  for (int ranks : {5, 20, 64}) {
    const Bytes bytes = BytesOf({.settings = {.algorithm = "owners"},
                                 .ranks = ranks,
                                 .counts = {int64_t{ranks} * 700, int64_t{ranks} * 3},
                                 .steps = kSteps,
                                 .payload = false});
    ExpectAll(bytes.sent, int64_t{kSteps} * 2 * (ranks - 1) * 703 * int64_t{sizeof(float)});
    ExpectAll(bytes.received, int64_t{kSteps} * 2 * (ranks - 1) * 703 * int64_t{sizeof(float)});
  }
}

TEST(SimBytes, TheServerOfAThousandRanks) {
  // (P-1) n come to rank 0 and go from it; everyone else sends n.
  const Bytes flat = ManyRanks("server", 1000);
  for (size_t r = 0; r < 1000; ++r) {
    ASSERT_EQ(flat.sent[r], kSteps * (r == 0 ? 999 : 1) * kN);
    ASSERT_EQ(flat.received[r], kSteps * (r == 0 ? 999 : 1) * kN);
  }
  // 125 hosts of 8: n from every host, and (H-1) n from that of rank 0.
  const Bytes hosts = ManyRanks("server", 1000, {.hosts = HostLayout::Even(1000, 8)});
  for (size_t h = 0; h < 125; ++h) ASSERT_EQ(hosts.left[h], kSteps * (h == 0 ? 124 : 1) * kN);
}

TEST(SimBytes, TheTreeOfAThousandRanks) {
  // Everyone but the root sends n up, and n to each of its children.
  for (int branches : {2, 3}) {
    const Bytes bytes = ManyRanks("tree", 1000, {.branches = branches});
    for (int r = 0; r < 1000; ++r) {
      const int children = std::clamp(1000 - (r * branches + 1), 0, branches);
      ASSERT_EQ(bytes.sent[static_cast<size_t>(r)], kSteps * ((r > 0) + children) * kN) << r;
    }
  }
  // Between 125 hosts of 8 the same, for hosts.
  const Bytes hosts = ManyRanks("tree", 1000, {.hosts = HostLayout::Even(1000, 8)});
  for (int h = 0; h < 125; ++h) {
    const int children = std::clamp(125 - (h * 2 + 1), 0, 2);
    ASSERT_EQ(hosts.left[static_cast<size_t>(h)], kSteps * ((h > 0) + children) * kN) << h;
  }
}

// Buckets beyond what 32 bits count, in messages of any size that is asked for: none is longer than
// a message may be.
TEST(SimBytes, ABucketOfMoreThanFourGigabytes) {
  const int64_t count = (int64_t{5} << 28) + 4096;  // 5 GiB and some
  const int64_t n = count * int64_t{sizeof(float)};
  constexpr int kRanks = 4;
  for (size_t message : {size_t{16} << 20, size_t{1} << 30, size_t{6} << 30}) {
    const auto run = [&](const std::string& scheme, SchemeSettings settings) {
      settings.message_bytes = message;
      const Bytes bytes = BytesOf({.scheme = scheme,
                                   .settings = settings,
                                   .ranks = kRanks,
                                   .counts = {count},
                                   .steps = 2,
                                   .payload = false});
      EXPECT_LT(bytes.longest, int64_t{1} << 30);
      return bytes;
    };
    for (const char* algorithm : {"auto", "owners", "halving"})
      ExpectAll(run("allreduce", {.algorithm = algorithm}).sent, 2 * 2 * (n - n / kRanks));
    ExpectAll(run("allreduce", {.hosts = HostLayout::Even(kRanks, 2)}).left, 2 * 2 * (n - n / 2));
    const std::vector<int64_t> star = run("server", {}).sent;
    const std::vector<int64_t> late = run("server", {.timeout = 1e9}).sent;
    const std::vector<int64_t> tree = run("tree", {}).sent;
    for (size_t r = 0; r < kRanks; ++r) {
      EXPECT_EQ(star[r], 2 * (r == 0 ? kRanks - 1 : 1) * n);
      EXPECT_EQ(late[r], 2 * (r == 0 ? kRanks - 1 : 1) * n);
      EXPECT_EQ(tree[r], 2 * ((r > 0) + (r == 0 ? 2 : r == 1 ? 1 : 0)) * n);
    }
  }
  // Two send all to each other.
  const Bytes two = BytesOf({.ranks = 2, .counts = {count}, .payload = false});
  ExpectAll(two.sent, n);
}

// Factors: every rank's part, count(+1) elements, goes to the P-1 others.
int64_t PartOf(int rank) { return 1000 + (rank % 3 == 1 ? 1 : 0); }
SimCluster::Setup Gathering(int ranks, int local) {
  return {.settings = {.message_bytes = 1024, .hosts = HostLayout::Even(ranks, local)},
          .ranks = ranks,
          .counts = {1000},
          .steps = kSteps,
          .gathers = true};
}

TEST(SimBytes, FactorsGoToEveryOtherRankOnce) {
  for (int ranks : {2, 3, 7}) {
    const Bytes bytes = BytesOf(Gathering(ranks, 1));
    int64_t all = 0;
    for (int r = 0; r < ranks; ++r) all += PartOf(r);
    for (int r = 0; r < ranks; ++r) {
      ASSERT_EQ(bytes.sent[static_cast<size_t>(r)], kSteps * (ranks - 1) * PartOf(r) * 4);
      ASSERT_EQ(bytes.received[static_cast<size_t>(r)], kSteps * (all - PartOf(r)) * 4);
    }
    EXPECT_LE(bytes.longest, 1024);
  }
}

TEST(SimBytes, FactorsEnterEveryHostOnce) {
  for (const auto& [hosts, local] : {std::pair(2, 2), {4, 4}, {3, 2}}) {
    const Bytes bytes = BytesOf(Gathering(hosts * local, local));
    for (int h = 0; h < hosts; ++h) {
      int64_t of_host = 0;
      for (int r = h * local; r < (h + 1) * local; ++r) of_host += PartOf(r);
      ASSERT_EQ(bytes.left[static_cast<size_t>(h)], kSteps * (hosts - 1) * of_host * 4)
          << hosts << " x " << local;
    }
  }
}

}  // namespace
}  // namespace carafe
