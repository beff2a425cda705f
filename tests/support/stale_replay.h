// For tests of the stale server: a training whose gradients depend on the values that were read,
// and its serial replay from the recorded clocks.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "carafe/base/index.h"
#include "carafe/exchange/exchange.h"
#include "tests/support/tree_by_hand.h"

namespace carafe {

using StaleValues = std::vector<std::vector<float>>;                 // by parameter
using StaleClocks = std::vector<std::vector<std::vector<int64_t>>>;  // by rank, step and parameter

inline const std::vector<int64_t>& StaleCounts() {
  static const std::vector<int64_t> counts = {50, 1, 0, 333};
  return counts;
}

// Different for every rank and step, so that no gradient can stand for another.
inline float StaleGradient(int rank, int64_t step, int p, int64_t i, float value) {
  return OrderSensitive<float>(rank, step * 31 + p * 613 + i) + value / 8;
}

// Momentum.
inline void StaleRule(int64_t count, float* value, float* gradient, float* velocity) {
  for (int64_t i = 0; i < count; ++i) {
    velocity[i] = velocity[i] * 0.5f + gradient[i] * 0.125f;
    value[i] -= velocity[i];
    gradient[i] = 0;
  }
}

inline void StaleRuleOnShard(const ShardUpdate<float>& update) {
  ASSERT_EQ(update.history.size(), 1u);
  StaleRule(update.shard.count, update.value, update.gradient, update.history[0]);
}

// The values after all steps, if rank r in step t read clock clocks[r][t][p] of parameter p.
inline StaleValues ReplayClocks(const StaleClocks& clocks) {
  const int ranks = Count(clocks);
  StaleValues result;
  for (int p = 0; p < Count(StaleCounts()); ++p) {
    const auto count = static_cast<size_t>(At(StaleCounts(), p));
    std::vector<std::vector<float>> values = {std::vector<float>(count)};  // by clock
    std::vector<float> velocity(count), gradient(count);
    for (size_t t = 0; t < clocks[0].size(); ++t) {
      for (size_t i = 0; i < count; ++i)
        gradient[i] = TreeByHand<float>(0, ranks, [&](int r) {
          const std::vector<float>& read = At(values, At(At(clocks, r)[t], p));
          return StaleGradient(r, static_cast<int64_t>(t), p, static_cast<int64_t>(i), read[i]);
        });
      values.push_back(values.back());
      StaleRule(At(StaleCounts(), p), values.back().data(), gradient.data(), velocity.data());
    }
    result.push_back(values.back());
  }
  return result;
}

inline void ExpectClocksWithin(const StaleClocks& clocks, int staleness) {
  for (const auto& rank : clocks)
    for (size_t t = 0; t < rank.size(); ++t)
      for (int64_t clock : rank[t]) {
        EXPECT_GE(clock, static_cast<int64_t>(t) - staleness) << "step " << t;
        EXPECT_LE(clock, static_cast<int64_t>(t)) << "step " << t;
      }
}

}  // namespace carafe
