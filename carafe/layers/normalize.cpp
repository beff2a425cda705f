// y = scale_c x / sqrt(eps + sum of x^2), the sum being over the channels of each place, or with
// across_spatial (the default) over all of an image. One learned scale for all channels
// (channel_shared, the default) or one per channel.
//   bottom (N, C, ..)  ->  top of the same shape
#include <fmt/format.h>

#include "carafe/kernels/l2_normalize.h"
#include "carafe/kernels/math.h"
#include "carafe/layers/layer.h"

namespace carafe {
namespace {

template <typename T>
class Normalize final : public Layer<T> {
 public:
  explicit Normalize(const LayerSpec& spec) : Layer<T>(spec), param_(spec.param().norm_param()) {
    spec.Check(param_.eps() >= 0, "norm_param.eps", fmt::format("eps is {}", param_.eps()),
               "use 0 or more");
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    this->spec().Check(bottom[0].rank() >= 2, "bottom",
                       fmt::format("Normalize needs a bottom of 2 axes or more (N, C, ..), this "
                                   "one is {}",
                                   bottom[0].ToString()),
                       "reshape the bottom");
    return {bottom[0]};
  }
  std::vector<ParamDef> DeclareParams(const Shapes& bottom) const override {
    FillerParameter filler = param_.scale_filler();
    if (!param_.has_scale_filler()) filler.set_value(1);
    return {{param_.channel_shared() ? Shape{} : Shape{bottom[0][1]}, filler}};
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const VectorAxis v = AxisOf(bottom[0]->shape());
    const T* x = bottom[0]->data(stream);
    norms_.Reshape({v.vectors()});
    L2Norms(stream, v, static_cast<T>(param_.eps()), x, norms_.mutable_data(stream));
    L2NormalizeForward<T>(stream, v, norms_.data(stream), this->blob(0).data(stream), x,
                          top[0]->mutable_data(stream));
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    Stream& stream = run.stream;
    const VectorAxis v = AxisOf(bottom[0]->shape());
    const T *x = bottom[0]->data(stream), *dy = top[0]->diff(stream), *norms = norms_.data(stream);
    if (this->param_propagate_down(0)) {
      sums_.Reshape({v.axis.channels});
      L2ScaleGradients(stream, v, norms, x, dy, sums_.mutable_data(stream));
      const int64_t channels = v.axis.channels, scales = v.shared_scale ? 1 : channels;
      AddChannelSums(stream, 1, scales, channels / scales, sums_.data(stream),
                     this->blob(0).mutable_diff(stream));
    }
    if (propagate_down[0]) {
      L2NormalizeBackward(stream, v, norms, this->blob(0).data(stream), x, dy,
                          bottom[0]->mutable_diff(stream));
    }
  }

 private:
  VectorAxis AxisOf(const Shape& x) const {
    return {{x[0], x[1], x.Count(2)}, param_.across_spatial(), param_.channel_shared()};
  }
  const NormalizeParameter param_;
  Blob<T> norms_;  // of the last Forward
  Blob<T> sums_;
};

const RegisterLayer<Normalize> kRegistered{
    {.type = "Normalize",
     .bottoms = {1, 1},
     .tops = {1, 1},
     .summary = "Vectors of length 1 times a learned scale, per place or per image (SSD)."}};

}  // namespace
}  // namespace carafe
