// Pooling by windows over any number of axes; images (two axes) have faster kernels in pooling.h.
#pragma once

#include <cstdint>

#include "carafe/core/stream.h"
#include "carafe/kernels/window_geometry.h"

namespace carafe {

// `planes` arrays one after the other, each pooled to out[0] x out[1] x ..
struct PoolNdGeometry : WindowGeometry {
  int64_t planes = 0;
};

// As the functions for images: the first maximum in memory order wins and its index in the plane is
// kept; averages divide by the extent that counts the padding, but not what lies beyond it.
template <typename T>
void MaxPoolNdForward(Stream& stream, const PoolNdGeometry& g, const T* x, T* y, int32_t* mask);
template <typename T>
void MaskedPoolNdBackward(Stream& stream, const PoolNdGeometry& g, const int32_t* mask, const T* dy,
                          T* dx);
template <typename T>
void AveragePoolNdForward(Stream& stream, const PoolNdGeometry& g, const T* x, T* y);
template <typename T>
void AveragePoolNdBackward(Stream& stream, const PoolNdGeometry& g, const T* dy, T* dx);

}  // namespace carafe
