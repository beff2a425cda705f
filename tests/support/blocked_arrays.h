// Random arrays in both memory formats, for the tests of kernels that work on the blocked one.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "carafe/core/format.h"
#include "carafe/core/stream.h"

namespace carafe {

inline std::vector<float> RandomFloats(int64_t count, unsigned seed, float low = -1,
                                       float high = 1) {
  std::mt19937 bits(seed);
  std::uniform_real_distribution<float> uniform(low, high);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = uniform(bits);
  return values;
}

inline std::vector<float> NormalFloats(int64_t count, unsigned seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(bits);
  return values;
}

inline std::vector<float> Blocked(const BlockedGeometry& g, const std::vector<float>& plain) {
  Stream stream;
  std::vector<float> blocked(static_cast<size_t>(g.padded_count()));
  PlainToBlocked(stream, g, plain.data(), blocked.data());
  return blocked;
}

// Fails where a channel that pads the last block is not 0.
inline std::vector<float> Plain(const BlockedGeometry& g, const std::vector<float>& blocked) {
  Stream stream;
  std::vector<float> plain(static_cast<size_t>(g.count()));
  BlockedToPlain(stream, g, blocked.data(), plain.data());
  std::vector<float> clean = blocked;
  ZeroPadding(stream, g, clean.data());
  EXPECT_TRUE(std::equal(clean.begin(), clean.end(), blocked.begin())) << "padding is not 0";
  return plain;
}

// The largest difference, as a share of the largest number expected.
inline double LargestError(const std::vector<float>& expected, const std::vector<float>& got) {
  EXPECT_EQ(expected.size(), got.size());
  double error = 0, size = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double off = std::abs(static_cast<double>(expected[i]) - static_cast<double>(got[i]));
    error = std::isnan(off) ? INFINITY : std::max(error, off);
    size = std::max(size, std::abs(static_cast<double>(expected[i])));
  }
  return size > 0 ? error / size : error;
}

}  // namespace carafe
