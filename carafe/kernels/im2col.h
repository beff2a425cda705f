// Turns the windows of an image into the columns of a matrix, and back, for any number of spatial
// axes. With it a convolution is a matrix product.
#pragma once

#include <cstdint>

#include "carafe/core/stream.h"
#include "carafe/kernels/window_geometry.h"

namespace carafe {

// One image (channels, in[0], ..) and its windows; in_size is that of one channel.
struct ColumnGeometry : WindowGeometry {
  int64_t channels = 1;
  int64_t dilation[kMaxSpatialAxes] = {};

  int64_t rows() const { return channels * kernel_size(); }
  // Whether the columns are the image itself: 1x1 windows side by side.
  bool is_identity() const {
    for (int a = 0; a < axes; ++a) {
      if (kernel[a] != 1 || stride[a] != 1 || pad[a] != 0) return false;
    }
    return true;
  }
};

// columns (channels * kernel.., out..) = the image's windows; zero where a window leaves the image.
template <typename T>
void Im2col(Stream& stream, const ColumnGeometry& geometry, const T* image, T* columns);
// image = for each element the sum of the columns' elements that Im2col would copy it to.
template <typename T>
void Col2im(Stream& stream, const ColumnGeometry& geometry, const T* columns, T* image);

}  // namespace carafe
