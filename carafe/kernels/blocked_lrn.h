// Local response normalisation of float maps in the blocked format (eight channels side by side in
// each pixel), on the CPU: y = x * s^-beta with s = k + a * (sum of x^2 around). s is not kept:
// Backward forms it again, which costs less than writing and reading it.
#pragma once

#include <cstdint>

#include "carafe/core/format.h"
#include "carafe/core/stream.h"

namespace carafe {

// The numbers of s; k must be above 0, so that the channels which pad a block stay 0.
struct LrnNumbers {
  float k, a, beta;
};

// The window across channels reaches no farther than this from its middle.
constexpr int64_t kMaxBlockedLrnHalf = 4;

// s over the channels c' with |c' - c| <= half.
void BlockedLrnAcrossForward(Stream& stream, const BlockedGeometry& g, int64_t half,
                             const LrnNumbers& numbers, const float* x, float* y);
void BlockedLrnAcrossBackward(Stream& stream, const BlockedGeometry& g, int64_t half,
                              const LrnNumbers& numbers, const float* x, const float* dy,
                              float* dx);

// s over the pixels of the same channel at most `half` rows and columns away; g.plane is
// height * width.
void BlockedLrnWithinForward(Stream& stream, const BlockedGeometry& g, int64_t width, int64_t half,
                             const LrnNumbers& numbers, const float* x, float* y);
void BlockedLrnWithinBackward(Stream& stream, const BlockedGeometry& g, int64_t width, int64_t half,
                              const LrnNumbers& numbers, const float* x, const float* dy,
                              float* dx);

}  // namespace carafe
