// What surrounds a convolution in nChw8c: ReLU in place, and the gradients of ReLU and of the bias
// in one pass. Plain references: ReluForward, ReluBackward, AddChannelSums.
#pragma once

#include "carafe/core/format.h"

namespace carafe {

// y = max(0, y); NaN stays.
void BlockedRelu(Stream& stream, const BlockedGeometry& g, float* y);

// dy = 0 where y <= 0, in place, if y is not null; then d_bias[c] += sum over images and plane of
// dy, if d_bias is not null. The same sums whatever the number of threads.
void BlockedReluBiasBackward(Stream& stream, const BlockedGeometry& g, const float* y, float* dy,
                             float* d_bias);

}  // namespace carafe
