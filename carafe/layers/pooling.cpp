// Pools the windows of each plane into one number: MAX, AVE, or STOCHASTIC (drawn in TRAIN in
// proportion to the values, their expectation in TEST).
//   bottom (N, C, H, W)  ->  top (N, C, H', W'), H' = ceil((H + 2 pad - kernel) / stride) + 1
// and likewise (N, C, D, H, W) or any other number of spatial axes, with MAX or AVE, where the file
// says kernel_shape or global_pooling: Caffe's own kernel_size is for images alone, as there.
// An optional second top of MAX holds the index of each maximum inside its plane.
#include <fmt/format.h>

#include <algorithm>

#include "carafe/kernels/blocked_pooling.h"
#include "carafe/kernels/pooling.h"
#include "carafe/kernels/pooling_nd.h"
#include "carafe/layers/memory_format.h"
#include "carafe/layers/spatial.h"

namespace carafe {
namespace {

template <typename T>
class Pooling final : public Layer<T> {
 public:
  explicit Pooling(const LayerSpec& spec)
      : Layer<T>(spec),
        param_(spec.param().pooling_param()),
        wants_mask_(spec.param().top_size() > 1) {
    // What is wrong whatever the bottom is said before one is there.
    PoolingWindows(spec, param_,
                   std::max({2, param_.kernel_shape_size(), param_.stride_shape_size(),
                             param_.pad_shape_size()}));
    spec.Check(!wants_mask_ || param_.pool() == PoolingParameter::MAX, "top[1]",
               "a second top (the positions of the maxima) needs pool: MAX",
               "leave the second top away, or use MAX");
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    const PoolNdGeometry g = GeometryOf(bottom[0]);
    Shape top = bottom[0].First(2);
    for (int a = 0; a < g.axes; ++a) top = top.Append(g.out[a]);
    return Shapes(wants_mask_ ? 2 : 1, top);
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const PoolNdGeometry& nd = KnownGeometry(bottom[0]->shape());
    const PoolGeometry g = ImageGeometry(nd);
    format_ = KnowsBlocked(nd) ? CommonFormat(stream, *bottom[0], *top[0]) : Format::kPlain;
    const T* x = bottom[0]->data(stream, format_);
    T* y = top[0]->overwrite_data(stream, format_);
    if constexpr (std::is_same_v<T, float>) {
      if (format_ == Format::kBlocked8) {
        return BlockedForward(stream, bottom[0]->blocked_geometry(), g, x, y);
      }
    }
    switch (method()) {
      case Method::kMax: {
        int32_t* mask = Mask(stream, top[0]->shape());
        if (nd.axes == 2) {
          MaxPoolForward(stream, g, x, y, mask);
        } else {
          MaxPoolNdForward(stream, nd, x, y, mask);
        }
        if (wants_mask_) {
          MaskToNumbers(stream, top[1]->count(), mask, top[1]->mutable_data(stream));
        }
        break;
      }
      case Method::kAverage:
        if (nd.axes == 2) {
          AveragePoolForward(stream, g, x, y);
        } else {
          AveragePoolNdForward(stream, nd, x, y);
        }
        break;
      case Method::kSampled:
        SampledPoolForward(stream, g, DrawKey(run, *this), run.replica.Slot(0), run.replica.count,
                           bottom[0]->shape()[1], x, y, Mask(stream, top[0]->shape()));
        break;
      case Method::kExpected:
        ExpectedPoolForward(stream, g, x, y);
        break;
    }
  }
  void KeepForBackward(bool keep) override {
    Layer<T>::KeepForBackward(keep);
    if (!keep) where_ = Blob<uint8_t>();
  }
  BackwardReads ReadsInBackward() const override {
    const bool reads = method() == Method::kExpected;
    return {.bottom = reads, .top = reads};
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    if (!propagate_down[0]) return;
    Stream& stream = run.stream;
    const PoolNdGeometry& nd = KnownGeometry(bottom[0]->shape());
    const PoolGeometry g = ImageGeometry(nd);
    const T* dy = top[0]->diff(stream, format_);
    T* dx = bottom[0]->overwrite_diff(stream, format_);
    if constexpr (std::is_same_v<T, float>) {
      if (format_ == Format::kBlocked8) {
        return BlockedBackward(stream, bottom[0]->blocked_geometry(), g, dy, dx);
      }
    }
    switch (method()) {
      case Method::kMax:
      case Method::kSampled:
        MaskedPoolNdBackward(stream, nd, mask_.data(stream), dy, dx);
        break;
      case Method::kAverage:
        if (nd.axes == 2) {
          AveragePoolBackward(stream, g, dy, dx);
        } else {
          AveragePoolNdBackward(stream, nd, dy, dx);
        }
        break;
      case Method::kExpected:
        ExpectedPoolBackward(stream, g, bottom[0]->data(stream), top[0]->data(stream), dy, dx);
        break;
    }
  }

 private:
  enum class Method { kMax, kAverage, kSampled, kExpected };
  Method method() const {
    if (param_.pool() == PoolingParameter::MAX) return Method::kMax;
    if (param_.pool() == PoolingParameter::AVE) return Method::kAverage;
    return this->spec().phase() == TRAIN ? Method::kSampled : Method::kExpected;
  }
  bool KnowsBlocked(const PoolNdGeometry& g) const {
    if (g.axes != 2 || wants_mask_) return false;
    if (method() == Method::kMax) return g.kernel[0] * g.kernel[1] <= kMaxBlockedWindow;
    return method() == Method::kAverage;
  }
  void BlockedForward(Stream& stream, const BlockedGeometry& b, PoolGeometry g, const float* x,
                      float* y) {
    g.planes = b.images * b.blocks();
    if (method() == Method::kAverage) return BlockedAveragePoolForward(stream, g, x, y);
    uint8_t* where = nullptr;
    if (this->keeps_for_backward()) {
      where_.Reshape({g.planes * g.out_size() * kBlockChannels});
      where = where_.mutable_data(stream);
    }
    BlockedMaxPoolForward(stream, g, b.channels, x, y, where);
  }
  void BlockedBackward(Stream& stream, const BlockedGeometry& b, PoolGeometry g, const float* dy,
                       float* dx) {
    g.planes = b.images * b.blocks();
    if (method() == Method::kAverage) return BlockedAveragePoolBackward(stream, g, dy, dx);
    Ensure(this->keeps_for_backward(), "Backward of a Pooling that kept nothing for it");
    BlockedMaxPoolBackward(stream, g, where_.data(stream), dy, dx);
  }
  int32_t* Mask(Stream& stream, const Shape& shape) {
    mask_.Reshape(shape);
    return mask_.mutable_data(stream);
  }
  const PoolNdGeometry& KnownGeometry(const Shape& x) {
    if (!(x == known_)) {
      geometry_ = GeometryOf(x);
      known_ = x;
    }
    return geometry_;
  }
  PoolNdGeometry GeometryOf(const Shape& x) const {
    const LayerSpec& spec = this->spec();
    spec.Check(x.rank() >= 3 && x.rank() <= 2 + kMaxSpatialAxes, "bottom",
               fmt::format("Pooling needs a bottom of 3 to {} axes (N, C, ..), this one is {}",
                           2 + kMaxSpatialAxes, x.ToString()),
               "reshape the bottom");
    const int axes = x.rank() - 2;
    spec.Check(axes == 2 || param_.kernel_shape_size() > 0 || param_.global_pooling(), "bottom",
               fmt::format("Pooling by kernel_size needs a bottom of 4 axes (N, C, H, W), this one "
                           "is {}",
                           x.ToString()),
               "reshape the bottom, or give the window as kernel_shape");
    spec.Check(
        x.Count(2) <= INT32_MAX, "bottom",
        fmt::format("the planes of the bottom ({}) have more than 2^31-1 elements", x.ToString()),
        "use smaller images");
    spec.Check(axes == 2 || param_.pool() != PoolingParameter::STOCHASTIC, "pooling_param.pool",
               fmt::format("STOCHASTIC pooling needs a bottom of 4 axes (N, C, H, W), this one is "
                           "{}",
                           x.ToString()),
               "use MAX or AVE");
    Windows windows = PoolingWindows(spec, param_, axes);
    const bool up = param_.round_mode() == PoolingParameter::CEIL;
    const bool clip = std::ranges::any_of(windows, [](const Window& w) { return w.pad > 0; });
    PoolNdGeometry g;
    g.axes = axes;
    g.planes = x[0] * x[1];
    for (int a = 0; a < axes; ++a) {
      Window& window = windows[static_cast<size_t>(a)];
      if (param_.global_pooling()) window.kernel = x[a + 2];
      g.in[a] = x[a + 2];
      g.out[a] = PooledSize(spec, window, x[a + 2], up, clip, a + 2);
      g.kernel[a] = window.kernel;
      g.stride[a] = window.stride;
      g.pad[a] = window.pad;
    }
    return g;
  }
  // For the kernels that know images only; of no use with other numbers of axes.
  static PoolGeometry ImageGeometry(const PoolNdGeometry& g) {
    return {.planes = g.planes,
            .height = g.in[0],
            .width = g.in[1],
            .pooled_height = g.out[0],
            .pooled_width = g.out[1],
            .kernel_h = g.kernel[0],
            .kernel_w = g.kernel[1],
            .stride_h = g.stride[0],
            .stride_w = g.stride[1],
            .pad_h = g.pad[0],
            .pad_w = g.pad[1]};
  }

  const PoolingParameter param_;
  const bool wants_mask_;
  Shape known_;  // the bottom of geometry_; a scalar, which none can be, before the first
  PoolNdGeometry geometry_;
  Format format_ = Format::kPlain;  // of the last Forward
  Blob<int32_t> mask_;              // of the plain format: index of the maximum in its plane
  Blob<uint8_t> where_;             // of the blocked one: its position in its window
};

const RegisterLayer<Pooling> kRegistered{
    {.type = "Pooling",
     .bottoms = {1, 1},
     .tops = {1, 2},
     .summary = "Maximum, average or random choice over windows of each plane."}};

}  // namespace
}  // namespace carafe
