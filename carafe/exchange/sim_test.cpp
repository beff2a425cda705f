// The schemes under virtual time: random delays, what overtakes, and ranks that are late.
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
      const ElementType& elements = ElementsOf<float>();
      ranks_[r].engine = std::make_unique<Engine>(
          r, kRanks, elements,
          TransfersOf(FindScheme("server"), {.timeout = kTimeout}, r, kRanks, elements,
                      {{.gradient = &ranks_[r].gradient, .value = &ranks_[r].value, .count = 1}}),
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
    std::unique_ptr<Engine> engine;
    float gradient = 0, value = 0;
    int complete = 0;  // transfers: the gradient, then the values
    int step = 0;
  };
  void Step(int r, double delay) {
    network_.At(network_.now() + kCompute + delay, r, [this, r] {
      Rank& rank = ranks_[r];
      rank.gradient = Gradient(r, rank.step);
      rank.engine->OnReady(0);
      if (r != 0) return rank.engine->OnReady(1);
      network_.At(network_.now() + kTimeout, 0, [this, step = rank.step] {
        if (ranks_[0].step == step) ranks_[0].engine->OnTimeout(0);
      });
    });
  }
  void Wake(int r) {
    Rank& rank = ranks_[r];
    for (bool moved = true; moved;) {
      moved = rank.engine->Poll(network_.transport(r));
      for (int transfer : rank.engine->TakeComplete()) {
        if (r == 0 && transfer == 0) {
          sums.push_back(rank.gradient);
          closed.push_back(network_.now());
          rank.engine->OnReady(1);
          moved = true;
        }
        if (++rank.complete % 2 == 0 && ++rank.step < kSteps) Step(r, 0);
      }
    }
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
