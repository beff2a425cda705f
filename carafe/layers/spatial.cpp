#include "carafe/layers/spatial.h"

#include <fmt/format.h>

namespace carafe {
namespace {

using Repeated = google::protobuf::RepeatedField<uint32_t>;

// One setting of all axes: `field` repeated, or its _h/_w form.
struct Setting {
  std::string field;
  const Repeated& values;
  bool has_h, has_w;
  uint32_t h, w;
};

std::vector<int64_t> PerAxis(const LayerSpec& spec, const Setting& s, size_t axes,
                             int64_t fallback) {
  const std::string path = "convolution_param." + s.field;
  const std::string stem = s.field == "kernel_size" ? "kernel" : s.field;
  const size_t given = static_cast<size_t>(s.values.size());
  if (s.has_h || s.has_w) {
    const std::string named = "convolution_param." + stem + (s.has_h ? "_h" : "_w");
    spec.Check(given == 0, named,
               fmt::format("{} and {}_h/{}_w are both given", s.field, stem, stem),
               fmt::format("keep one of the two forms"));
    spec.Check(
        axes == 2, named,
        fmt::format("{}_h and {}_w need two spatial axes, the bottom has {}", stem, stem, axes),
        fmt::format("give {} once per spatial axis instead", s.field));
    return {s.h, s.w};
  }
  if (given == 0 && fallback >= 0) return std::vector<int64_t>(axes, fallback);
  spec.Check(given > 0 || axes == 0, path, fmt::format("{} is missing", s.field),
             fmt::format("give the size of the window, e.g. {}: 3", s.field));
  spec.Check(
      given == 1 || given == axes, path,
      fmt::format("{} is given {} times, but the bottom has {} spatial axes", s.field, given, axes),
      "give it once, or once per spatial axis");
  std::vector<int64_t> result(axes);
  for (size_t a = 0; a < axes; ++a) result[a] = s.values.Get(given == 1 ? 0 : static_cast<int>(a));
  return result;
}

void CheckPositive(const LayerSpec& spec, const std::string& path, const std::string& name,
                   int64_t value) {
  spec.Check(value > 0, path, fmt::format("{} is 0", name),
             fmt::format("use 1 or more for every axis (with _h, _w: give both)"));
}

// One setting of pooling_param: `one` for all axes, its _h/_w form, or its _shape form.
struct PoolSetting {
  std::string stem, field;
  bool has_one;
  uint32_t one;
  bool named;
  uint32_t h, w;
  const Repeated& shape;
  bool given() const { return has_one || named || !shape.empty(); }
};

std::vector<int64_t> PoolPerAxis(const LayerSpec& spec, const PoolSetting& s, size_t axes) {
  const std::string path = "pooling_param." + s.field;
  const std::string names = fmt::format("{}_h/{}_w", s.stem, s.stem);
  spec.Check(!s.named || !s.has_one, path, fmt::format("{} and {} are both given", s.field, names),
             "keep one of the two forms");
  const std::string shape_path = fmt::format("pooling_param.{}_shape", s.stem);
  if (!s.shape.empty()) {
    const size_t given = static_cast<size_t>(s.shape.size());
    spec.Check(!s.named && !s.has_one, shape_path,
               fmt::format("{}_shape and {} are both given", s.stem, s.named ? names : s.field),
               "keep one of the two forms");
    spec.Check(given == 1 || given == axes, shape_path,
               fmt::format("{}_shape is given {} times, but the bottom has {} spatial axes", s.stem,
                           given, axes),
               "give it once, or once per spatial axis");
    std::vector<int64_t> result(axes);
    for (size_t a = 0; a < axes; ++a) result[a] = s.shape.Get(given == 1 ? 0 : static_cast<int>(a));
    return result;
  }
  if (!s.named) return std::vector<int64_t>(axes, s.one);
  spec.Check(
      axes == 2, fmt::format("pooling_param.{}_h", s.stem),
      fmt::format("{}_h and {}_w need two spatial axes, the bottom has {}", s.stem, s.stem, axes),
      fmt::format("give {}_shape once per spatial axis instead", s.stem));
  return {s.h, s.w};
}

}  // namespace

Windows ConvolutionWindows(const LayerSpec& spec, const ConvolutionParameter& param,
                           int spatial_axes) {
  spec.Check(spatial_axes <= kMaxSpatialAxes, "convolution_param.axis",
             fmt::format("the bottom has {} spatial axes", spatial_axes),
             fmt::format("use at most {}, or a larger axis", kMaxSpatialAxes));
  const size_t axes = static_cast<size_t>(spatial_axes);
  const auto kernel = PerAxis(spec,
                              {"kernel_size", param.kernel_size(), param.has_kernel_h(),
                               param.has_kernel_w(), param.kernel_h(), param.kernel_w()},
                              axes, -1);
  const auto stride = PerAxis(spec,
                              {"stride", param.stride(), param.has_stride_h(), param.has_stride_w(),
                               param.stride_h(), param.stride_w()},
                              axes, 1);
  const auto pad = PerAxis(
      spec,
      {"pad", param.pad(), param.has_pad_h(), param.has_pad_w(), param.pad_h(), param.pad_w()},
      axes, 0);
  const auto dilation = PerAxis(spec, {"dilation", param.dilation(), false, false, 0, 0}, axes, 1);
  Windows windows(axes);
  for (size_t a = 0; a < axes; ++a) {
    CheckPositive(spec, "convolution_param.kernel_size", "the kernel size", kernel[a]);
    CheckPositive(spec, "convolution_param.stride", "the stride", stride[a]);
    CheckPositive(spec, "convolution_param.dilation", "the dilation", dilation[a]);
    windows[a] = {kernel[a], stride[a], pad[a], dilation[a]};
  }
  return windows;
}

int64_t ConvolvedSize(const LayerSpec& spec, const Window& window, int64_t size, int axis) {
  const int64_t room = size + 2 * window.pad - window.extent();
  spec.Check(room >= 0, "convolution_param.kernel_size",
             fmt::format("the window ({} wide) is larger than axis {} of the bottom ({} with {} of "
                         "padding on both sides)",
                         window.extent(), axis, size, window.pad),
             "use a smaller kernel or dilation, or a larger pad or input");
  return room / window.stride + 1;
}

int64_t DeconvolvedSize(const LayerSpec& spec, const Window& window, int64_t size, int axis) {
  const int64_t result = window.stride * (size - 1) + window.extent() - 2 * window.pad;
  spec.Check(
      result > 0, "convolution_param.pad",
      fmt::format("nothing remains along axis {}: {} elements give {} outputs", axis, size, result),
      "use a smaller pad, or a larger kernel, stride or input");
  return result;
}

ColumnGeometry MakeGeometry(int64_t channels, std::span<const int64_t> in,
                            std::span<const int64_t> out, const Windows& windows) {
  ColumnGeometry g;
  g.axes = static_cast<int>(windows.size());
  g.channels = channels;
  for (size_t a = 0; a < windows.size(); ++a) {
    g.in[a] = in[a];
    g.out[a] = out[a];
    g.kernel[a] = windows[a].kernel;
    g.stride[a] = windows[a].stride;
    g.pad[a] = windows[a].pad;
    g.dilation[a] = windows[a].dilation;
  }
  return g;
}

Windows PoolingWindows(const LayerSpec& spec, const PoolingParameter& param, int spatial_axes) {
  const size_t axes = static_cast<size_t>(spatial_axes);
  const PoolSetting kernel{"kernel",
                           "kernel_size",
                           param.has_kernel_size(),
                           param.kernel_size(),
                           param.has_kernel_h() || param.has_kernel_w(),
                           param.kernel_h(),
                           param.kernel_w(),
                           param.kernel_shape()};
  const PoolSetting pad{"pad",
                        "pad",
                        param.has_pad(),
                        param.pad(),
                        param.has_pad_h() || param.has_pad_w(),
                        param.pad_h(),
                        param.pad_w(),
                        param.pad_shape()};
  const PoolSetting stride{"stride",
                           "stride",
                           param.has_stride(),
                           param.stride(),
                           param.has_stride_h() || param.has_stride_w(),
                           param.stride_h(),
                           param.stride_w(),
                           param.stride_shape()};
  if (param.global_pooling()) {
    spec.Check(!kernel.given(), "pooling_param.kernel_size",
               "global_pooling takes the whole image, but a kernel size is given",
               "leave the kernel size or global_pooling away");
  } else {
    spec.Check(kernel.given(), "pooling_param", "kernel_size is missing",
               "give the size of the window, e.g. kernel_size: 2, or global_pooling: true");
  }
  const std::vector<int64_t> kernels =
      param.global_pooling() ? std::vector<int64_t>(axes, 1) : PoolPerAxis(spec, kernel, axes);
  const std::vector<int64_t> pads = PoolPerAxis(spec, pad, axes);
  const std::vector<int64_t> strides = PoolPerAxis(spec, stride, axes);
  Windows windows(axes);
  for (size_t i = 0; i < axes; ++i) windows[i] = {kernels[i], strides[i], pads[i], 1};
  for (const Window& window : windows) {
    CheckPositive(spec, "pooling_param.kernel_size", "the kernel size", window.kernel);
    CheckPositive(spec, "pooling_param.stride", "the stride", window.stride);
    if (param.global_pooling()) {
      spec.Check(window.pad == 0 && window.stride == 1, "pooling_param.global_pooling",
                 "global_pooling has one window, but pad or stride is given",
                 "leave pad and stride, or global_pooling, away");
    } else {
      spec.Check(window.pad < window.kernel, "pooling_param.pad",
                 fmt::format("the padding ({}) is not smaller than the kernel ({})", window.pad,
                             window.kernel),
                 "use a smaller pad: windows would lie in the padding alone");
    }
    spec.Check(window.pad == 0 || param.pool() != PoolingParameter::STOCHASTIC, "pooling_param.pad",
               "STOCHASTIC pooling takes no padding", "leave pad away, or use MAX or AVE");
  }
  return windows;
}

int64_t PooledSize(const LayerSpec& spec, const Window& window, int64_t size, bool round_up,
                   bool clip, int axis) {
  const int64_t room = size + 2 * window.pad - window.kernel;
  int64_t steps = room / window.stride;  // rounded towards zero
  if (round_up && room > 0 && room % window.stride != 0) ++steps;
  if (!round_up && room < 0 && room % window.stride != 0) --steps;
  int64_t count = steps + 1;
  if (clip && (count - 1) * window.stride >= size + window.pad) --count;
  spec.Check(count > 0, "pooling_param.kernel_size",
             fmt::format("the kernel ({}) is larger than axis {} of the bottom ({} with {} of "
                         "padding on both sides)",
                         window.kernel, axis, size, window.pad),
             "use a smaller kernel_size, or a larger pad or input");
  return count;
}

}  // namespace carafe
