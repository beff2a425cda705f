// Pools the windows of each plane into one number: MAX, AVE, or STOCHASTIC (drawn in TRAIN in
// proportion to the values, their expectation in TEST).
//   bottom (N, C, H, W)  ->  top (N, C, H', W'), H' = ceil((H + 2 pad - kernel) / stride) + 1
// An optional second top of MAX holds the index of each maximum inside its plane.
#include <fmt/format.h>

#include "carafe/kernels/pooling.h"
#include "carafe/layers/spatial.h"

namespace carafe {
namespace {

template <typename T>
class Pooling final : public Layer<T> {
 public:
  explicit Pooling(const LayerSpec& spec)
      : Layer<T>(spec),
        param_(spec.param().pooling_param()),
        windows_(PoolingWindows(spec, param_)),
        wants_mask_(spec.param().top_size() > 1) {
    spec.Check(!wants_mask_ || param_.pool() == PoolingParameter::MAX, "top[1]",
               "a second top (the positions of the maxima) needs pool: MAX",
               "leave the second top away, or use MAX");
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    const PoolGeometry g = GeometryOf(bottom[0]);
    const Shape top = bottom[0].With(2, g.pooled_height).With(3, g.pooled_width);
    return Shapes(wants_mask_ ? 2 : 1, top);
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const PoolGeometry g = GeometryOf(bottom[0]->shape());
    const T* x = bottom[0]->data(stream);
    T* y = top[0]->mutable_data(stream);
    switch (method()) {
      case Method::kMax: {
        int32_t* mask = Mask(stream, top[0]->shape());
        MaxPoolForward(stream, g, x, y, mask);
        if (wants_mask_) {
          MaskToNumbers(stream, top[1]->count(), mask, top[1]->mutable_data(stream));
        }
        break;
      }
      case Method::kAverage:
        AveragePoolForward(stream, g, x, y);
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
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    if (!propagate_down[0]) return;
    Stream& stream = run.stream;
    const PoolGeometry g = GeometryOf(bottom[0]->shape());
    const T* dy = top[0]->diff(stream);
    T* dx = bottom[0]->mutable_diff(stream);
    switch (method()) {
      case Method::kMax:
      case Method::kSampled:
        MaskedPoolBackward(stream, g, mask_.data(stream), dy, dx);
        break;
      case Method::kAverage:
        AveragePoolBackward(stream, g, dy, dx);
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
  int32_t* Mask(Stream& stream, const Shape& shape) {
    mask_.Reshape(shape);
    return mask_.mutable_data(stream);
  }
  PoolGeometry GeometryOf(const Shape& x) const {
    const LayerSpec& spec = this->spec();
    spec.Check(
        x.rank() == 4, "bottom",
        fmt::format("Pooling needs a bottom of 4 axes (N, C, H, W), this one is {}", x.ToString()),
        "reshape the bottom");
    spec.Check(x[2] <= INT32_MAX / std::max<int64_t>(x[3], 1), "bottom",
               fmt::format("the planes of the bottom ({} x {}) have more than 2^31-1 elements",
                           x[2], x[3]),
               "use smaller images");
    Window h = windows_[0], w = windows_[1];
    if (param_.global_pooling()) {
      h.kernel = x[2];
      w.kernel = x[3];
    }
    const bool up = param_.round_mode() == PoolingParameter::CEIL;
    const bool clip = h.pad > 0 || w.pad > 0;
    return {.planes = x[0] * x[1],
            .height = x[2],
            .width = x[3],
            .pooled_height = PooledSize(spec, h, x[2], up, clip, 2),
            .pooled_width = PooledSize(spec, w, x[3], up, clip, 3),
            .kernel_h = h.kernel,
            .kernel_w = w.kernel,
            .stride_h = h.stride,
            .stride_w = w.stride,
            .pad_h = h.pad,
            .pad_w = w.pad};
  }

  const PoolingParameter param_;
  const Windows windows_;
  const bool wants_mask_;
  Blob<int32_t> mask_;
};

const RegisterLayer<Pooling> kRegistered{
    {.type = "Pooling",
     .bottoms = {1, 1},
     .tops = {1, 2},
     .summary = "Maximum, average or random choice over windows of each plane."}};

}  // namespace
}  // namespace carafe
