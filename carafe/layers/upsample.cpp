// Enlarges planes: each element is repeated scale x scale times, or, with the mask of a Pooling
// layer as second bottom, put back to where that layer found it and 0 elsewhere (SegNet).
//   bottom (N, C, H, W)  ->  top (N, C, scale_h H, scale_w W); with a mask one row or column less
//   with pad_out_h or pad_out_w, or upsample_h x upsample_w
#include <fmt/format.h>

#include "carafe/kernels/math.h"
#include "carafe/kernels/resize.h"
#include "carafe/layers/layer.h"

namespace carafe {
namespace {

template <typename T>
class Upsample final : public Layer<T> {
 public:
  explicit Upsample(const LayerSpec& spec)
      : Layer<T>(spec),
        param_(spec.param().upsample_param()),
        scale_h_(param_.has_scale_h() ? param_.scale_h() : param_.scale()),
        scale_w_(param_.has_scale_w() ? param_.scale_w() : param_.scale()),
        has_mask_(spec.param().bottom_size() > 1) {
    spec.Check(scale_h_ > 0 && scale_w_ > 0, "upsample_param.scale",
               fmt::format("the scale is {} x {}", scale_h_, scale_w_), "use 1 or more");
    const bool sized = param_.has_upsample_h() || param_.has_upsample_w();
    spec.Check(
        !sized || (param_.upsample_h() > 0 && param_.upsample_w() > 0), "upsample_param.upsample_h",
        fmt::format("upsample_h is {} and upsample_w {}", param_.upsample_h(), param_.upsample_w()),
        "give both, 1 or more");
    spec.Check(has_mask_ || (!sized && !param_.pad_out_h() && !param_.pad_out_w()),
               "upsample_param", "upsample_h, upsample_w and pad_out need a mask as second bottom",
               "give the second top of a Pooling layer as second bottom, or scale alone");
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    const Shape& x = bottom[0];
    this->spec().Check(
        x.rank() == 4, "bottom",
        fmt::format("Upsample needs a bottom of 4 axes (N, C, H, W), this one is {}", x.ToString()),
        "reshape the bottom");
    this->spec().Check(!has_mask_ || bottom[1] == x, "bottom[1]",
                       fmt::format("the mask is {}, the bottom {}",
                                   has_mask_ ? bottom[1].ToString() : "", x.ToString()),
                       "give the second top of the Pooling layer that is to be undone");
    if (param_.has_upsample_h()) {
      return {x.With(2, param_.upsample_h()).With(3, param_.upsample_w())};
    }
    return {x.With(2, x[2] * scale_h_ - param_.pad_out_h())
                .With(3, x[3] * scale_w_ - param_.pad_out_w())};
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const T* x = bottom[0]->data(stream);
    T* y = top[0]->mutable_data(stream);
    if (has_mask_) {
      const Shape &in = bottom[0]->shape(), &out = top[0]->shape();
      UnpoolForward(stream, in.Count(0, 2), in.Count(2), out.Count(2), bottom[1]->data(stream), x,
                    y);
    } else {
      RepeatForward(stream, GeometryOf(bottom[0]->shape()), x, y);
    }
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    Stream& stream = run.stream;
    if (has_mask_ && propagate_down[1]) bottom[1]->ZeroDiff(stream);  // positions have no gradient
    if (!propagate_down[0]) return;
    const T* dy = top[0]->diff(stream);
    T* dx = bottom[0]->mutable_diff(stream);
    if (has_mask_) {
      const Shape &in = bottom[0]->shape(), &out = top[0]->shape();
      UnpoolBackward(stream, in.Count(0, 2), in.Count(2), out.Count(2), bottom[1]->data(stream), dy,
                     dx);
    } else {
      RepeatBackward(stream, GeometryOf(bottom[0]->shape()), dy, dx);
    }
  }
  bool AllowForceBackward(int bottom) const override { return bottom == 0; }

 private:
  RepeatGeometry GeometryOf(const Shape& x) const {
    return {x.Count(0, 2), x[2], x[3], scale_h_, scale_w_};
  }
  const UpsampleParameter param_;
  const int64_t scale_h_, scale_w_;
  const bool has_mask_;
};

const RegisterLayer<Upsample> kRegistered{
    {.type = "Upsample",
     .bottoms = {1, 2},
     .tops = {1, 1},
     .summary = "Repeats elements of planes, or undoes a MAX pooling by its mask (SegNet)."}};

}  // namespace
}  // namespace carafe
