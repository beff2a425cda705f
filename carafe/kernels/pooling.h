// Pooling of image planes by windows (height x width). Gradients are gathered plane by plane, so
// that no two threads write to the same element.
#pragma once

#include <cstdint>

#include "carafe/base/random.h"
#include "carafe/core/stream.h"

namespace carafe {

// `planes` planes of height x width, pooled to pooled_height x pooled_width.
struct PoolGeometry {
  int64_t planes, height, width, pooled_height, pooled_width;
  int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
  int64_t in_size() const { return height * width; }
  int64_t out_size() const { return pooled_height * pooled_width; }
};

// y = the window's largest element, mask = its index inside the plane; the first one wins a tie. A
// window wholly outside the plane gives -FLT_MAX and -1.
template <typename T>
void MaxPoolForward(Stream& stream, const PoolGeometry& g, const T* x, T* y, int32_t* mask);
// dx = 0 but for the elements that `mask` names, each of which gets the dy of its windows.
template <typename T>
void MaskedPoolBackward(Stream& stream, const PoolGeometry& g, const int32_t* mask, const T* dy,
                        T* dx);
// The mask as numbers, for those who want to see it.
template <typename T>
void MaskToNumbers(Stream& stream, int64_t n, const int32_t* mask, T* y);

// y = the window's sum divided by its area, which counts the padding but not what lies beyond it.
template <typename T>
void AveragePoolForward(Stream& stream, const PoolGeometry& g, const T* x, T* y);
template <typename T>
void AveragePoolBackward(Stream& stream, const PoolGeometry& g, const T* dy, T* dx);

// y = one element of the window, drawn with a probability proportional to its value (which must not
// be negative), and its index. Plane p belongs to row p / planes_per_row, which draws as slot
// row * slot_stride + slot_offset of the key.
template <typename T>
void SampledPoolForward(Stream& stream, const PoolGeometry& g, RandomKey key, int64_t slot_offset,
                        int64_t slot_stride, int64_t planes_per_row, const T* x, T* y,
                        int32_t* mask);
// Its expectation: y = sum x^2 / sum x over the window; 0 where that sum is 0.
template <typename T>
void ExpectedPoolForward(Stream& stream, const PoolGeometry& g, const T* x, T* y);
template <typename T>
void ExpectedPoolBackward(Stream& stream, const PoolGeometry& g, const T* x, const T* y,
                          const T* dy, T* dx);

}  // namespace carafe
