// YOLO's reorganisation, in Darknet's own order: with s = stride and D = C / s^2 the C H W numbers
// of a row are seen as an array (D, H, s, W, s), axes d j a i b, and become (s, s, D, H, W), axes
// a b d j i; the result has the shape (C s^2, H / s, W / s). `reverse` is the way back.
//   bottom (N, C, H, W)  ->  top (N, C s^2, H / s, W / s), or with reverse (N, C / s^2, H s, W s)
#include <fmt/format.h>

#include "carafe/kernels/permute.h"
#include "carafe/layers/layer.h"
#include "carafe/proto/fork_messages.h"

namespace carafe {
namespace {

template <typename T>
class Reorg final : public Layer<T> {
 public:
  explicit Reorg(const LayerSpec& spec)
      : Layer<T>(spec), param_(ForkPart<ForkLayerParameter>(spec.param()).reorg_param()) {
    spec.Check(param_.stride() > 0, "reorg_param", "stride is 0 or missing",
               "give it, e.g. reorg_param { stride: 2 }");
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    const Shape& x = bottom[0];
    this->spec().Check(
        x.rank() == 4, "bottom",
        fmt::format("Reorg needs a bottom of 4 axes (N, C, H, W), this one is {}", x.ToString()),
        "reshape the bottom");
    const int64_t s = param_.stride();
    const bool fits = param_.reverse() ? x[1] % (s * s * s * s) == 0
                                       : x[1] % (s * s) == 0 && x[2] % s == 0 && x[3] % s == 0;
    this->spec().Check(
        fits, "bottom", fmt::format("{} cannot be divided by a stride of {}", x.ToString(), s),
        "the channels must be a multiple of stride^2 (in reverse stride^4), height and width of "
        "stride");
    if (param_.reverse()) return {Shape{x[0], x[1] / (s * s), x[2] * s, x[3] * s}};
    return {Shape{x[0], x[1] * s * s, x[2] / s, x[3] / s}};
  }
  BackwardReads ReadsInBackward() const override { return {.bottom = false, .top = false}; }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    const T* x = bottom[0]->data(run.stream);
    T* y = top[0]->mutable_data(run.stream);
    if (param_.reverse()) {
      PermuteBackward(run.stream, GeometryOf(top[0]->shape()), x, y);
    } else {
      PermuteForward(run.stream, GeometryOf(bottom[0]->shape()), x, y);
    }
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    if (!propagate_down[0]) return;
    const T* dy = top[0]->diff(run.stream);
    T* dx = bottom[0]->mutable_diff(run.stream);
    if (param_.reverse()) {
      PermuteForward(run.stream, GeometryOf(top[0]->shape()), dy, dx);
    } else {
      PermuteBackward(run.stream, GeometryOf(bottom[0]->shape()), dy, dx);
    }
  }

 private:
  PermuteGeometry GeometryOf(const Shape& x) const {
    const int64_t s = param_.stride(), d = x[1] / (s * s), h = x[2], w = x[3];
    return {6, {x[0], s, s, d, h, w}, {x.Count(1), w * s, 1, h * s * w * s, s * w * s, s}};
  }
  const ReorgParameter param_;
};

const RegisterLayer<Reorg> kRegistered{
    {.type = "Reorg",
     .bottoms = {1, 1},
     .tops = {1, 1},
     .summary = "Squares of neighbours become channels, in the order of Darknet (YOLO)."}};

}  // namespace
}  // namespace carafe
