// Turns the windows of an image into the columns of a matrix, and back, for any number of spatial
// axes. With it a convolution is a matrix product.
#pragma once

#include <cstdint>

#include "carafe/core/stream.h"

namespace carafe {

constexpr int kMaxSpatialAxes = 8;

// One image (channels, in[0], ..) and its windows, whose number along axis a is out[a].
struct ColumnGeometry {
  int axes = 0;
  int64_t channels = 1;
  int64_t in[kMaxSpatialAxes] = {}, out[kMaxSpatialAxes] = {};
  int64_t kernel[kMaxSpatialAxes] = {}, stride[kMaxSpatialAxes] = {};
  int64_t pad[kMaxSpatialAxes] = {}, dilation[kMaxSpatialAxes] = {};

  int64_t in_size() const { return Product(in); }          // of one channel
  int64_t out_size() const { return Product(out); }        // windows
  int64_t kernel_size() const { return Product(kernel); }  // elements of a window
  int64_t rows() const { return channels * kernel_size(); }
  // Whether the columns are the image itself: 1x1 windows side by side.
  bool is_identity() const {
    for (int a = 0; a < axes; ++a) {
      if (kernel[a] != 1 || stride[a] != 1 || pad[a] != 0) return false;
    }
    return true;
  }

 private:
  int64_t Product(const int64_t* values) const {
    int64_t product = 1;
    for (int a = 0; a < axes; ++a) product *= values[a];
    return product;
  }
};

// columns (channels * kernel.., out..) = the image's windows; zero where a window leaves the image.
template <typename T>
void Im2col(Stream& stream, const ColumnGeometry& geometry, const T* image, T* columns);
// image = for each element the sum of the columns' elements that Im2col would copy it to.
template <typename T>
void Col2im(Stream& stream, const ColumnGeometry& geometry, const T* columns, T* image);

}  // namespace carafe
