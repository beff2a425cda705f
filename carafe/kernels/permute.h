// The axes of an array in another order.
#pragma once

#include <cstdint>

#include "carafe/core/stream.h"

namespace carafe {

constexpr int kMaxPermuteAxes = 32;

// y has extents out[a] along its axes; one step along axis a of y is step[a] elements in x.
struct PermuteGeometry {
  int axes = 0;
  int64_t out[kMaxPermuteAxes] = {}, step[kMaxPermuteAxes] = {};
};

// y = x with its axes permuted, and the way back: x = y.
template <typename T>
void PermuteForward(Stream& stream, const PermuteGeometry& g, const T* x, T* y);
template <typename T>
void PermuteBackward(Stream& stream, const PermuteGeometry& g, const T* y, T* x);

}  // namespace carafe
