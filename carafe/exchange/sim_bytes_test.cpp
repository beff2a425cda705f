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
  const int local = std::max(setup.settings.local, 1);
  bytes.left.resize(static_cast<size_t>(setup.ranks / local));
  SimNetwork network(setup.ranks);
  network.Watch([&](int from, int to, int tag, size_t size) {
    if (tag < kExchangePayloadTag) return;
    bytes.longest = std::max(bytes.longest, static_cast<int64_t>(size));
    if (from / local != to / local)
      bytes.left[static_cast<size_t>(from / local)] += static_cast<int64_t>(size);
  });
  SimCluster cluster(setup, network);
  cluster.Run();
  EXPECT_TRUE(cluster.complete()) << setup.scheme;
  EXPECT_EQ(cluster.wrong(), 0) << "votes";
  for (int r = 0; r < setup.ranks; ++r) {
    bytes.sent.push_back(cluster.agreement(r).bytes_sent());
    bytes.received.push_back(cluster.agreement(r).bytes_received());
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
  const Bytes few = ManyRanks("allreduce", 128, {.local = 8});
  ExpectAll(few.left, kSteps * 2 * (kN - kN / 16));
  ExpectAll(few.sent, kSteps * 2 * (kN - kN / 128));
  // 128 hosts of 8 are halved, inside the hosts first.
  const Bytes many = ManyRanks("allreduce", 1024, {.local = 8});
  ExpectAll(many.left, kSteps * 2 * (kN - kN / 128));
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
  const Bytes hosts = ManyRanks("server", 1000, {.local = 8});
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
  const Bytes hosts = ManyRanks("tree", 1000, {.local = 8});
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
    ExpectAll(run("allreduce", {.local = 2}).left, 2 * 2 * (n - n / 2));
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

}  // namespace
}  // namespace carafe
