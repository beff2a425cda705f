// Windows that move over an array of any number of axes: what pooling and convolution share.
#pragma once

#include <cstdint>

namespace carafe {

constexpr int kMaxSpatialAxes = 8;

// Extent in[0] x in[1] x .. of the array; the number of windows along axis a is out[a].
struct WindowGeometry {
  int axes = 0;
  int64_t in[kMaxSpatialAxes] = {}, out[kMaxSpatialAxes] = {};
  int64_t kernel[kMaxSpatialAxes] = {}, stride[kMaxSpatialAxes] = {}, pad[kMaxSpatialAxes] = {};

  int64_t in_size() const { return Product(in); }
  int64_t out_size() const { return Product(out); }        // windows
  int64_t kernel_size() const { return Product(kernel); }  // elements of a window

 private:
  int64_t Product(const int64_t* values) const {
    int64_t product = 1;
    for (int a = 0; a < axes; ++a) product *= values[a];
    return product;
  }
};

}  // namespace carafe
