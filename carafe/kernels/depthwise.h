// Convolution of each channel by itself (group = channels), without columns and matrix products:
// such products are one row high, and cost more to set up than to compute.
#pragma once

#include <cstdint>

#include "carafe/core/stream.h"

namespace carafe {

// x is the side with the windows, images (channels, height, width); y the other, images
// (channels * multiplier, out_height, out_width). Feature f of y belongs to channel f / multiplier
// of x and has weights of its own, (kernel_h, kernel_w).
struct DepthwiseGeometry {
  int64_t images, channels, multiplier;
  int64_t height, width, out_height, out_width;
  int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;

  int64_t features() const { return channels * multiplier; }
};

// y = W * x
template <typename T>
void DepthwiseApply(Stream& stream, const DepthwiseGeometry& g, const T* weights, const T* x, T* y);
// x = for each element the sum of what it contributes to, W^T y
template <typename T>
void DepthwiseApplyTransposed(Stream& stream, const DepthwiseGeometry& g, const T* weights,
                              const T* y, T* x);
// dw += the products of y with the elements of x under each weight, over all images
template <typename T>
void DepthwiseAddWeightGradient(Stream& stream, const DepthwiseGeometry& g, const T* x, const T* y,
                                T* dw);

}  // namespace carafe
