// The mean of each of group_size x group_size bins of each region, taken from a channel of its own
// (position-sensitive, R-FCN): output channel c at bin (i, j) reads channel (c group + i) group +
// j.
//   bottoms: features (N, output_dim group^2, H, W), regions (R, 5)
//   top: (R, output_dim, group, group)
#include "carafe/layers/roi_layer.h"

namespace carafe {
namespace {

template <typename T>
class PsroiPooling final : public RoiLayer<T> {
 public:
  explicit PsroiPooling(const LayerSpec& spec)
      : PsroiPooling(spec, ForkPart<ForkLayerParameter>(spec.param()).psroi_pooling_param()) {}
  Shapes InferShapes(const Shapes& bottom) const override {
    this->CheckBottoms(bottom);
    const int64_t group = this->pooled_h();
    this->spec().Check(
        bottom[0][1] == outputs_ * group * group, "bottom[0]",
        fmt::format("the features have {} channels, but output_dim {} x group_size {} x {} is {}",
                    bottom[0][1], outputs_, group, group, outputs_ * group * group),
        "give the convolution that makes them as many outputs");
    return {Shape{bottom[1][0], outputs_, group, group}};
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    this->CheckRegions(stream, bottom);
    RoiPositionForward(stream, this->GeometryOf(bottom), bottom[0]->data(stream),
                       bottom[1]->data(stream), top[0]->mutable_data(stream));
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    Stream& stream = run.stream;
    if (propagate_down[1]) bottom[1]->ZeroDiff(stream);  // corners have no gradient
    if (!propagate_down[0]) return;
    RoiPositionBackward(stream, this->GeometryOf(bottom), bottom[1]->data(stream),
                        top[0]->diff(stream), bottom[0]->mutable_diff(stream));
  }

 private:
  PsroiPooling(const LayerSpec& spec, const PSROIPoolingParameter& param)
      : RoiLayer<T>(spec, param.spatial_scale(), param.group_size(), param.group_size()),
        outputs_(param.output_dim()) {
    spec.Check(param.spatial_scale() > 0 && outputs_ > 0 && param.group_size() > 0,
               "psroi_pooling_param", "spatial_scale, output_dim or group_size is 0 or missing",
               "give all three, e.g. spatial_scale: 0.0625 output_dim: 21 group_size: 7");
  }
  const int64_t outputs_;
};

const RegisterLayer<PsroiPooling> kRegistered{
    {.type = "PSROIPooling",
     .bottoms = {2, 2},
     .tops = {1, 1},
     .summary = "The mean of each bin of regions, each bin from channels of its own (R-FCN)."}};

}  // namespace
}  // namespace carafe
