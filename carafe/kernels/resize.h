// Planes to planes of another size: bilinear interpolation, repetition, and maxima put back to
// where a pooling mask says they came from. Gradients are gathered plane by plane.
#pragma once

#include <cstdint>

#include "carafe/core/stream.h"

namespace carafe {

// The part of planes (in_height, in_width) that begins at (first, first) and is height x width
// large becomes out_height x out_width: the corners fall on the corners, and between them
//   h = oh (height - 1) / (out_height - 1)
// is rounded down and up, and weighed by its fraction.
struct BilinearGeometry {
  int64_t planes, in_height, in_width, first, height, width, out_height, out_width;
};
template <typename T>
void BilinearForward(Stream& stream, const BilinearGeometry& g, const T* x, T* y);
template <typename T>
void BilinearBackward(Stream& stream, const BilinearGeometry& g, const T* dy, T* dx);

// Each element of planes (height, width) becomes scale_h x scale_w elements.
struct RepeatGeometry {
  int64_t planes, height, width, scale_h, scale_w;
};
template <typename T>
void RepeatForward(Stream& stream, const RepeatGeometry& g, const T* x, T* y);
template <typename T>
void RepeatBackward(Stream& stream, const RepeatGeometry& g, const T* dy, T* dx);

// y, planes of out_size elements, is 0 but for y[mask[i]] += x[i] in each plane of in_size; what
// lies outside of the plane is passed over.
template <typename T>
void UnpoolForward(Stream& stream, int64_t planes, int64_t in_size, int64_t out_size, const T* mask,
                   const T* x, T* y);
template <typename T>
void UnpoolBackward(Stream& stream, int64_t planes, int64_t in_size, int64_t out_size,
                    const T* mask, const T* dy, T* dx);

}  // namespace carafe
