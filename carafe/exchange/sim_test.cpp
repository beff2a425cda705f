// The schemes under virtual time: a thousand ranks, their bytes, random delays, and faults.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/comm/sim_transport.h"
#include "carafe/exchange/scheme.h"
#include "tests/support/sim_cluster.h"

namespace carafe {
namespace {

const char* const kSchemes[] = {"allreduce", "server", "tree"};

void ExpectEqualValues(const SimCluster& cluster, int ranks, int buckets) {
  for (int r = 1; r < ranks; ++r)
    for (int b = 0; b < buckets; ++b) ASSERT_EQ(cluster.value(r, b), cluster.value(0, b));
}

TEST(Sim, EverySchemeGivesTheSameValuesOnEveryRank) {
  std::vector<float> expected;
  for (const char* scheme : kSchemes)
    for (int ranks : {5}) {
      SimNetwork network(ranks);
      SimCluster cluster({.scheme = scheme, .ranks = ranks, .counts = {300, 7, 5000}, .steps = 4},
                         network);
      cluster.Run();
      ASSERT_TRUE(cluster.complete()) << scheme;
      ExpectEqualValues(cluster, ranks, 3);
      if (expected.empty()) expected = cluster.value(0, 2);
      EXPECT_EQ(cluster.value(0, 2), expected) << scheme;
    }
}

// 10,000 schedules in all: every message is delayed at random, up to many times the time of a step.
TEST(Sim, RandomDelaysChangeNothingAndNeverDeadlock) {
  for (const char* scheme : kSchemes) {
    std::vector<float> expected;
    for (uint64_t seed = 0; seed < 3334; ++seed) {
      const int ranks = 2 + static_cast<int>(seed % 5);
      SimNetwork network(ranks, {.jitter = seed % 2 ? 1e-3 : 1e-5, .seed = seed});
      SimCluster cluster(
          {.scheme = scheme,
           .settings = {.message_bytes = 64, .algorithm = seed % 3 ? "auto" : "halving"},
           .ranks = ranks,
           .counts = {3, 20, 1},
           .steps = 2,
           .backward = 1e-5,
           .forward = 1e-5},
          network);
      cluster.Run();
      ASSERT_TRUE(cluster.complete()) << scheme << ", seed " << seed;
      ExpectEqualValues(cluster, ranks, 3);
      if (ranks != 4) continue;
      if (expected.empty()) expected = cluster.value(0, 1);
      ASSERT_EQ(cluster.value(0, 1), expected) << scheme << ", seed " << seed;
    }
  }
}

// Bytes that every rank sends for n bytes, after the formulas of the algorithms.
TEST(Sim, AThousandRanksMoveTheBytesOfTheFormulas) {
  constexpr int kRanks = 1000, kSteps = 1;
  const std::vector<int64_t> counts = {1000, 20480};
  const int64_t n = (1000 + 20480) * int64_t{sizeof(float)};
  const auto run = [&](const std::string& scheme, int ranks) {
    SimNetwork network(ranks);
    auto cluster = std::make_unique<SimCluster>(
        SimCluster::Setup{
            .scheme = scheme, .ranks = ranks, .counts = counts, .steps = kSteps, .payload = false},
        network);
    cluster->Run();
    EXPECT_TRUE(cluster->complete()) << scheme;
    std::vector<int64_t> sent;
    for (int r = 0; r < ranks; ++r) sent.push_back(cluster->agreement(r).bytes_sent());
    return sent;
  };
  // Halving and doubling at a power of two: 2 n (P-1)/P on every rank, up to the last odd element.
  for (int64_t sent : run("allreduce", 1024))
    EXPECT_NEAR(static_cast<double>(sent), static_cast<double>(kSteps * 2 * n * 1023 / 1024),
                static_cast<double>(kSteps * 2 * 10 * 2 * sizeof(float)));
  // Otherwise the blocks 512 + 256 + 128 + 64 + 32 + 8 add one hand-over each way.
  int64_t all = 0;
  for (int64_t sent : run("allreduce", kRanks)) {
    all += sent;
    EXPECT_LE(sent, kSteps * 4 * n);
  }
  EXPECT_LE(all, kSteps * kRanks * 2 * n);
  // The star: (P-1) n come to rank 0 and go from it; everyone else sends n.
  const std::vector<int64_t> star = run("server", kRanks);
  EXPECT_EQ(star[0], kSteps * (kRanks - 1) * n);
  for (int r = 1; r < kRanks; ++r) EXPECT_EQ(star[static_cast<size_t>(r)], kSteps * n);
  // The tree: everyone sends n up but the root, and n to each of its two children.
  const std::vector<int64_t> tree = run("tree", kRanks);
  for (int r = 0; r < kRanks; ++r) {
    const int children = (2 * r + 1 < kRanks) + (2 * r + 2 < kRanks);
    EXPECT_EQ(tree[static_cast<size_t>(r)], kSteps * ((r > 0) + children) * n);
  }
}

TEST(Sim, WhatForwardNeedsFirstOvertakes) {
  // The first bucket of the backward pass is long, the last short and urgent: its values are there,
  // and the forward pass goes on, before the long one has arrived.
  SimNetwork network(4, {.latency = 1e-5, .bandwidth = 1e8});
  SimCluster cluster({.ranks = 4, .counts = {4 << 20, 1000}, .payload = false, .backward = 1e-3},
                     network);
  cluster.Run();
  ASSERT_TRUE(cluster.complete());
  EXPECT_LT(cluster.first_forward_done, cluster.last_value_there / 2);
}

TEST(Sim, ALostMessageHoldsTheStepAndItsSenderIsNamed) {
  for (const char* scheme : kSchemes) {
    SimNetwork network(4, {}, {{SimFault::Kind::kDrop, 1, 0, 3}});
    SimCluster cluster({.scheme = scheme, .ranks = 4, .counts = {3000, 70}, .steps = 4}, network);
    cluster.Run();
    EXPECT_FALSE(cluster.complete()) << scheme;
    EXPECT_THAT(cluster.Awaited(0), ::testing::Contains(1)) << scheme;
  }
}

TEST(Sim, ARankThatDiesIsNoticedByThoseThatWaitForIt) {
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

TEST(Sim, ARepeatedMessageIsRefusedOrHarmlessNeverAdded) {
  for (const char* scheme : kSchemes)
    for (int64_t message = 0; message < 12; ++message) {
      SimNetwork network(3, {}, {{SimFault::Kind::kDuplicate, 1, 0, message}});
      SimCluster cluster({.scheme = scheme, .ranks = 3, .counts = {3000, 70}, .steps = 3}, network);
      cluster.Run();  // sums are checked on the way
      if (cluster.complete()) ExpectEqualValues(cluster, 3, 2);
    }
}

TEST(Sim, ADelayedMessageDelaysAndNoMore) {
  for (const char* scheme : kSchemes) {
    SimNetwork network(3, {}, {{SimFault::Kind::kDelay, 1, 0, 2, 5.0}});
    SimCluster cluster({.scheme = scheme, .ranks = 3, .counts = {3000, 70}, .steps = 3}, network);
    cluster.Run();
    EXPECT_TRUE(cluster.complete());
    EXPECT_GT(network.now(), 5.0);
    ExpectEqualValues(cluster, 3, 2);
  }
}

// The server with a timeout. Rank r's gradient of step s is 2^(r + 4 s); rank `late` takes `delay`
// seconds more in the first step.
struct LateRun {
  static constexpr int kRanks = 4, kSteps = 4;
  static constexpr double kCompute = 0.01, kTimeout = 0.1;
  std::vector<float> sums;     // rank 0's, by step
  std::vector<double> closed;  // when
  bool complete = false;

  LateRun(int late, double delay) : network_(kRanks) {
    for (int r = 0; r < kRanks; ++r) {
      ranks_[r].agreement = std::make_unique<Agreement<float>>(
          FindScheme("server"), SchemeSettings{.timeout = kTimeout}, r, kRanks,
          std::vector<BucketPlace<float>>{
              {.gradient = &ranks_[r].gradient, .value = &ranks_[r].value, .count = 1}},
          ChannelTags{100, 1000});
      Step(r, r == late ? delay : 0);
    }
    network_.Run([this](int r) { Wake(r); });
    complete = std::all_of(std::begin(ranks_), std::end(ranks_),
                           [](const Rank& rank) { return rank.step == kSteps; });
  }
  static float Gradient(int rank, int step) {
    return std::exp2f(static_cast<float>(rank + 4 * step));
  }

 private:
  struct Rank {
    std::unique_ptr<Agreement<float>> agreement;
    float gradient = 0, value = 0;
    int step = 0;
  };
  void Step(int r, double delay) {
    network_.At(network_.now() + kCompute + delay, r, [this, r] {
      Rank& rank = ranks_[r];
      rank.gradient = Gradient(r, rank.step);
      rank.agreement->OnGradients(0);
      if (r != 0) return;
      network_.At(network_.now() + kTimeout, 0, [this, step = rank.step] {
        if (ranks_[0].step == step) ranks_[0].agreement->OnTimeUp(0);
      });
    });
  }
  void Wake(int r) {
    Rank& rank = ranks_[r];
    while (rank.agreement->Poll(network_.transport(r))) {
    }
    for (int b : rank.agreement->TakeSums()) {
      sums.push_back(rank.gradient);
      closed.push_back(network_.now());
      rank.agreement->OnUpdated(b);
      while (rank.agreement->Poll(network_.transport(r))) {
      }
    }
    if (!rank.agreement->TakeValues().empty() && ++rank.step < kSteps) Step(r, 0);
  }

  SimNetwork network_;
  Rank ranks_[kRanks];
};

TEST(Sim, AServerWithATimeoutTakesTheMeanOfThoseThatCameAndLateOnesCountOnce) {
  const auto g = LateRun::Gradient;
  const LateRun run(2, 0.14);
  ASSERT_TRUE(run.complete);
  EXPECT_FLOAT_EQ(run.sums[0], (g(0, 0) + g(1, 0) + g(3, 0)) * 4 / 3);
  EXPECT_NEAR(run.closed[0], 0.11, 0.001);
  EXPECT_FLOAT_EQ(run.sums[1], (g(0, 1) + g(1, 1) + g(2, 0) + g(2, 1) + g(3, 1)) * 4 / 5);
  EXPECT_EQ(run.sums[2], g(0, 2) + g(1, 2) + g(2, 2) + g(3, 2));
  EXPECT_EQ(run.sums[3], g(0, 3) + g(1, 3) + g(2, 3) + g(3, 3));
}

TEST(Sim, AServerWithATimeoutLeavesNobodyOutTwiceInARow) {
  const LateRun run(1, 10);
  ASSERT_TRUE(run.complete);
  const auto g = LateRun::Gradient;
  EXPECT_NEAR(run.closed[0], 0.11, 0.001);
  EXPECT_GT(run.closed[1], 10);
  // The time was up long ago when the late gradient came: its next one counts a step later.
  EXPECT_FLOAT_EQ(run.sums[1], g(0, 1) + g(1, 0) + g(2, 1) + g(3, 1));
  EXPECT_FLOAT_EQ(run.sums[2], (g(0, 2) + g(1, 1) + g(1, 2) + g(2, 2) + g(3, 2)) * 4 / 5);
}

TEST(Sim, AServerWithATimeoutThatNobodyMissesIsThePlainServer) {
  const LateRun run(1, 0.05);
  ASSERT_TRUE(run.complete);
  for (int s = 0; s < LateRun::kSteps; ++s) EXPECT_EQ(run.sums[s], 15 * std::exp2f(4.f * s));
}

}  // namespace
}  // namespace carafe
