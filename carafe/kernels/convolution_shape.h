// The sizes of one 2-D convolution: what a kernel must know of it, and no more.
#pragma once

#include <cstdint>

namespace carafe {

// src (images, in_channels, in_h, in_w), dst (images, out_channels, out_h, out_w), weights
// (out_channels, in_channels / groups, kernel_h, kernel_w). Channels are those of all groups;
// pads are the same on both sides.
struct ConvolutionShape {
  int64_t images = 1, groups = 1;
  int64_t in_channels = 1, out_channels = 1;
  int64_t in_h = 1, in_w = 1, out_h = 1, out_w = 1;
  int64_t kernel_h = 1, kernel_w = 1;
  int64_t stride_h = 1, stride_w = 1;
  int64_t pad_h = 0, pad_w = 0;
  int64_t dilation_h = 1, dilation_w = 1;

  bool operator==(const ConvolutionShape&) const = default;

  int64_t group_in_channels() const { return in_channels / groups; }
  int64_t group_out_channels() const { return out_channels / groups; }
  int64_t weight_count() const { return out_channels * group_in_channels() * kernel_h * kernel_w; }
  // Multiplications and additions of the direct algorithm in one direction, border taps included.
  double flops() const {
    return 2.0 * static_cast<double>(images * out_h * out_w) * static_cast<double>(weight_count());
  }
};

}  // namespace carafe
