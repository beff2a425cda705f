// Element-wise activations and their gradients. x may be y, and dx may be dy: layers may run in
// place.
#pragma once

#include <cstdint>

#include "carafe/base/random.h"
#include "carafe/core/stream.h"

namespace carafe {

// y = max(0, x) + slope min(0, x)
template <typename T>
void ReluForward(Stream& stream, int64_t n, T slope, const T* x, T* y);
// dx = dy where x > 0, slope dy elsewhere. x may be the output, given slope >= 0.
template <typename T>
void ReluBackward(Stream& stream, int64_t n, T slope, const T* x, const T* dy, T* dx);

// y = max(0, x) + slope_c min(0, x) for arrays (outer, channels, inner), each channel with a slope
// of its own. dx may be dy. The slopes' gradients are added to ds.
template <typename T>
void PReluForward(Stream& stream, int64_t outer, int64_t channels, int64_t inner, const T* slopes,
                  const T* x, T* y);
template <typename T>
void PReluBackward(Stream& stream, int64_t outer, int64_t channels, int64_t inner, const T* slopes,
                   const T* x, const T* dy, T* dx);
template <typename T>
void PReluAddSlopeGradient(Stream& stream, int64_t outer, int64_t channels, int64_t inner,
                           const T* x, const T* dy, T* ds);

// One bit per element, rows x width: 1 with probability 1 - ratio. Row r is slot
// r * slot_stride + slot_offset of the key, so that a worker draws for its rows what one worker
// with the global batch draws for them.
void DrawMask(Stream& stream, RandomKey key, int64_t slot_offset, int64_t slot_stride, int64_t rows,
              int64_t width, float ratio, uint8_t* mask);
// y = x * mask * scale
template <typename T>
void MultiplyMask(Stream& stream, int64_t n, T scale, const uint8_t* mask, const T* x, T* y);

}  // namespace carafe
