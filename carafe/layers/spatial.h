// The geometry of windows over the spatial axes: how Convolution, Deconvolution and Im2col read
// convolution_param, and Pooling pooling_param.
#pragma once

#include <vector>

#include "carafe/kernels/im2col.h"
#include "carafe/layers/layer.h"

namespace carafe {

// The window along one axis.
struct Window {
  int64_t kernel = 1, stride = 1, pad = 0, dilation = 1;
  int64_t extent() const { return dilation * (kernel - 1) + 1; }
};
using Windows = std::vector<Window>;

// Sizes given once for all axes, once per axis, or by name (kernel_h, kernel_w) for two axes.
// Throws ConfigError for what is missing, zero, or given in two ways.
Windows ConvolutionWindows(const LayerSpec& spec, const ConvolutionParameter& param,
                           int spatial_axes);

// floor((size + 2 pad - extent) / stride) + 1; throws ConfigError where the window does not fit.
int64_t ConvolvedSize(const LayerSpec& spec, const Window& window, int64_t size, int axis);

// stride (size - 1) + extent - 2 pad; throws ConfigError where nothing remains.
int64_t DeconvolvedSize(const LayerSpec& spec, const Window& window, int64_t size, int axis);

// The windows of one image whose shape from the channel axis on is `image` (channels, in..).
// `out` holds their numbers along the axes.
ColumnGeometry MakeGeometry(int64_t channels, std::span<const int64_t> in,
                            std::span<const int64_t> out, const Windows& windows);

// The windows of pooling_param along its spatial axes, but for global_pooling, whose kernel is the
// image. Checks everything that does not depend on the image.
Windows PoolingWindows(const LayerSpec& spec, const PoolingParameter& param, int spatial_axes);

// The number of pooling windows along an axis: rounded up or down; with `clip` (any axis is padded)
// the last one must start inside the image or its leading padding. Throws ConfigError below 1.
int64_t PooledSize(const LayerSpec& spec, const Window& window, int64_t size, bool round_up,
                   bool clip, int axis);

}  // namespace carafe
