#include "carafe/exchange/cost_model.h"

#include <gtest/gtest.h>

#include <cmath>

namespace carafe {
namespace {

// The published constants: 1 TFLOP/s, sums at 8 GB/s.
ClusterRates Ethernet(double latency, double bytes_per_second) {
  return {.latency = latency,
          .per_byte = 1 / bytes_per_second,
          .reduce_per_byte = 1 / 8e9,
          .flops = 1e12};
}
const ClusterRates k10Gbit = Ethernet(40e-6, 1.1e9), k100Gbit = Ethernet(20e-6, 10e9);
const LayerSize kFc6{25088, 4096, 32}, kFc7{4096, 4096, 32};

// Milliseconds, rounded to whole ones in the source (the third row's 15 is 14.5).
TEST(CostModel, ReproducesPublishedRows) {
  const struct {
    LayerSize layer;
    ClusterRates rates;
    int ranks;
    double dense, factors, sharded;
  } rows[] = {
      {kFc6, k10Gbit, 8, 699, 70, 333},    {kFc6, k10Gbit, 32, 776, 310, 382},
      {kFc6, k10Gbit, 64, 791, 631, 406},  {kFc6, k10Gbit, 128, 803, 1272, 444},
      {kFc7, k10Gbit, 8, 115, 14.5, 58},   {kFc7, k10Gbit, 32, 129, 64, 77},
      {kFc7, k10Gbit, 64, 133, 130, 96},   {kFc7, k10Gbit, 128, 140, 263, 132},
      {kFc6, k100Gbit, 8, 117, 49, 37},    {kFc6, k100Gbit, 32, 131, 216, 43},
      {kFc6, k100Gbit, 128, 138, 885, 53},
  };
  for (const auto& row : rows) {
    EXPECT_NEAR(1e3 * DenseCost(row.layer, row.ranks, row.rates).seconds, row.dense, 0.6)
        << row.ranks;
    EXPECT_NEAR(1e3 * FactorCost(row.layer, row.ranks, row.rates).seconds, row.factors, 0.6)
        << row.ranks;
    EXPECT_NEAR(1e3 * ShardedFactorCost(row.layer, row.ranks, row.rates).seconds, row.sharded, 0.6)
        << row.ranks;
  }
}

// P* = 8 M N b / (K (4 b (M + N) + 2 M N / F)), without latency and reduction: up to this many
// ranks factors take less time than a dense sum.
TEST(CostModel, CrossesOverWhereTheClosedFormSays) {
  const struct {
    LayerSize layer;
    double bytes_per_second;
    int ranks;
  } rows[] = {{kFc6, 1.1e9, 75},          {{9216, 4096, 32}, 1.1e9, 69},
              {kFc7, 1.1e9, 60},          {kFc6, 10e9, 12},
              {kFc7, 10e9, 11},           {{4096, 1000, 32}, 1.1e9, 35},
              {{800, 500, 32}, 1.1e9, 16}};
  for (const auto& row : rows) {
    const ClusterRates rates{.per_byte = 1 / row.bytes_per_second, .flops = 1e12};
    const auto factors_win = [&](int ranks) {
      return FactorCost(row.layer, ranks, rates).seconds <
             DenseCost(row.layer, ranks, rates).seconds;
    };
    EXPECT_TRUE(factors_win(row.ranks - 2)) << row.ranks;
    EXPECT_FALSE(factors_win(row.ranks + 2)) << row.ranks;
  }
}

TEST(CostModel, BytesAreThoseOfTheFormulas) {
  // LeNet's ip1 on 4 ranks with 64 rows each.
  const LayerSize ip1{800, 500, 64};
  EXPECT_EQ(DenseCost(ip1, 4, k10Gbit).bytes, 2 * 800 * 500 * 4 * 3 / 4);
  EXPECT_EQ(FactorCost(ip1, 4, k10Gbit).bytes, 3 * 64 * (800 + 500) * 4);
  EXPECT_EQ(ShardedFactorCost(ip1, 4, k10Gbit).bytes,
            3 * 64 * (500 + 200) * 4 + 800 * 500 * 4 * 3 / 4);
  EXPECT_EQ(
      FactorCost({.inputs = 800, .outputs = 500, .rows = 64, .element_bytes = 8}, 4, k10Gbit).bytes,
      3 * 64 * (800 + 500) * 8);
}

TEST(CostModel, CpuTimePerByteCountsForAllThatIsSent) {
  ClusterRates slow = k10Gbit;
  slow.cpu_per_byte = 1e-9;
  const auto more = [&](auto cost) {
    return cost(kFc7, 8, slow).seconds - cost(kFc7, 8, k10Gbit).seconds -
           1e-9 * static_cast<double>(cost(kFc7, 8, slow).bytes);
  };
  EXPECT_NEAR(more(DenseCost), 0, 1e-9);
  EXPECT_NEAR(more(FactorCost), 0, 1e-9);
  EXPECT_NEAR(more(ShardedFactorCost), 0, 1e-9);
}

TEST(CostModel, TheVolumeRuleTakesFactorsForLeNetsFirstLayerOnly) {
  for (int ranks = 2; ranks <= 8; ++ranks) {
    EXPECT_TRUE(VolumeRuleTakesFactors({800, 500, 64}, ranks, ranks)) << ranks;
    EXPECT_FALSE(VolumeRuleTakesFactors({500, 10, 64}, ranks, ranks)) << ranks;
  }
}

// Poseidon's own example: 58.7 and 3.67 million parameters.
TEST(CostModel, TheVolumeRuleWithOtherNumbersOfServers) {
  EXPECT_TRUE(VolumeRuleTakesFactors(kFc7, 8, 8));
  EXPECT_TRUE(VolumeRuleTakesFactors(kFc7, 128, 128));
  EXPECT_FALSE(VolumeRuleTakesFactors(kFc7, 129, 129));
  EXPECT_TRUE(VolumeRuleTakesFactors(kFc7, 129, 1));  // one server takes everything
}

// CaffeNet's fully connected layers with 16 rows a rank, and 9 MB of other gradients.
const std::vector<LayerSize> kCaffeNet = {{9216, 4096, 16}, {4096, 4096, 16}, {4096, 1000, 16}};
constexpr int64_t kOthers = 9 << 20;
const ClusterRates k1Gbit{.latency = 100e-6, .per_byte = 1 / 0.118e9, .flops = 5e10};

TEST(ChooseFactors, TakesThemWhereTheNetworkIsTheLimit) {
  const StepModel step{.compute = 0.4, .dense_bytes = kOthers};
  const std::vector<bool> chosen = ChooseFactors(kCaffeNet, step, 2, k1Gbit);
  EXPECT_TRUE(chosen[0]);
  EXPECT_TRUE(chosen[1]);
  EXPECT_LT(StepSeconds(kCaffeNet, chosen, step, 2, k1Gbit),
            0.3 * StepSeconds(kCaffeNet, {false, false, false}, step, 2, k1Gbit));
}

TEST(ChooseFactors, LeavesTransfersThatComputingHides) {
  ClusterRates fast = k1Gbit;
  fast.per_byte = 1 / 10e9;
  const StepModel step{.compute = 0.4, .dense_bytes = kOthers};
  EXPECT_EQ(ChooseFactors(kCaffeNet, step, 2, fast), std::vector<bool>(3));
  // The same bytes cost as much when a core that computes must send them.
  fast.cpu_per_byte = 1 / 0.118e9;
  EXPECT_NE(ChooseFactors(kCaffeNet, step, 2, fast), std::vector<bool>(3));
}

TEST(ChooseFactors, IsNeverSlowerThanOneSchemeForAll) {
  for (const double rate : {0.1e9, 0.5e9, 1.1e9, 3e9, 10e9})
    for (const double compute : {0.01, 0.1, 1.0})
      for (const int ranks : {2, 4, 16, 64}) {
        ClusterRates rates = k1Gbit;
        rates.per_byte = 1 / rate;
        const StepModel step{.compute = compute, .dense_bytes = kOthers};
        const auto seconds = [&](const std::vector<bool>& chosen) {
          return StepSeconds(kCaffeNet, chosen, step, ranks, rates);
        };
        const double best = seconds(ChooseFactors(kCaffeNet, step, ranks, rates));
        EXPECT_LE(best, seconds({false, false, false}) * (1 + 1e-12));
        EXPECT_LE(best, seconds({true, true, true}) * 1.03) << rate << " " << compute;
      }
}

}  // namespace
}  // namespace carafe
