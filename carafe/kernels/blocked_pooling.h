// Pooling of float planes in the blocked format (eight channels side by side in each pixel), on the
// CPU. Same results as kernels/pooling.h, to the last bit.
#pragma once

#include <cstdint>

#include "carafe/core/stream.h"
#include "carafe/kernels/pooling.h"

namespace carafe {

// Where the maximum of a window lies is kept in a byte, so a window has at most this many elements.
constexpr int64_t kMaxBlockedWindow = 255;

// g.planes counts planes of eight channels: images * ceil(channels / 8). `channels` is the true
// number; what pads it to a multiple of 8 is 0 in x, and stays so.
// where = position of the maximum inside its window, kMaxBlockedWindow if none; may be null.
void BlockedMaxPoolForward(Stream& stream, const PoolGeometry& g, int64_t channels, const float* x,
                           float* y, uint8_t* where);
void BlockedMaxPoolBackward(Stream& stream, const PoolGeometry& g, const uint8_t* where,
                            const float* dy, float* dx);
void BlockedAveragePoolForward(Stream& stream, const PoolGeometry& g, const float* x, float* y);
void BlockedAveragePoolBackward(Stream& stream, const PoolGeometry& g, const float* dy, float* dx);

}  // namespace carafe
