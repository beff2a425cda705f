// Pooling by windows over any number of axes; images (two axes) have faster kernels in pooling.h.
#pragma once

#include <cstdint>

#include "carafe/core/stream.h"

namespace carafe {

constexpr int kMaxPoolAxes = 8;

// `planes` arrays of extent in[0] x in[1] x .., pooled to out[0] x out[1] x ..
struct PoolNdGeometry {
  int axes = 0;
  int64_t planes = 0;
  int64_t in[kMaxPoolAxes] = {}, out[kMaxPoolAxes] = {};
  int64_t kernel[kMaxPoolAxes] = {}, stride[kMaxPoolAxes] = {}, pad[kMaxPoolAxes] = {};

  int64_t in_size() const { return Product(in); }
  int64_t out_size() const { return Product(out); }
  int64_t kernel_size() const { return Product(kernel); }

 private:
  int64_t Product(const int64_t* values) const {
    int64_t product = 1;
    for (int a = 0; a < axes; ++a) product *= values[a];
    return product;
  }
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
