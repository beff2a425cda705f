// The maximum of each of pooled_h x pooled_w bins of each region (Fast R-CNN); 0 of an empty bin.
//   bottoms: features (N, C, H, W), regions (R, 5)  ->  top (R, C, pooled_h, pooled_w)
// Corners times spatial_scale are rounded to features, and bins are rounded outwards.
#include "carafe/layers/roi_layer.h"

namespace carafe {
namespace {

template <typename T>
class RoiPooling final : public RoiLayer<T> {
 public:
  explicit RoiPooling(const LayerSpec& spec)
      : RoiPooling(spec, ForkPart<ForkLayerParameter>(spec.param()).roi_pooling_param()) {}
  Shapes InferShapes(const Shapes& bottom) const override {
    this->CheckBottoms(bottom);
    return {Shape{bottom[1][0], bottom[0][1], this->pooled_h(), this->pooled_w()}};
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    this->CheckRegions(stream, bottom);
    where_.Reshape(top[0]->shape());
    RoiMaxForward(stream, this->GeometryOf(bottom), bottom[0]->data(stream),
                  bottom[1]->data(stream), top[0]->mutable_data(stream),
                  where_.mutable_data(stream));
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    Stream& stream = run.stream;
    if (propagate_down[1]) bottom[1]->ZeroDiff(stream);  // corners have no gradient
    if (!propagate_down[0]) return;
    RoiMaxBackward(stream, this->GeometryOf(bottom), bottom[1]->data(stream), where_.data(stream),
                   top[0]->diff(stream), bottom[0]->mutable_diff(stream));
  }

 private:
  RoiPooling(const LayerSpec& spec, const ROIPoolingParameter& param)
      : RoiLayer<T>(spec, param.spatial_scale(), param.pooled_h(), param.pooled_w()) {
    spec.Check(param.pooled_h() > 0 && param.pooled_w() > 0, "roi_pooling_param",
               "pooled_h or pooled_w is 0 or missing", "give both, e.g. pooled_h: 7 pooled_w: 7");
    spec.Check(param.spatial_scale() > 0, "roi_pooling_param",
               fmt::format("spatial_scale is {}", param.spatial_scale()),
               "give 1 / stride of the features, e.g. 0.0625");
  }
  Blob<T> where_;  // of each maximum, in its plane
};

const RegisterLayer<RoiPooling> kRegistered{
    {.type = "ROIPooling",
     .bottoms = {2, 2},
     .tops = {1, 1},
     .summary = "The maximum of each bin of regions of interest (Fast R-CNN)."}};

}  // namespace
}  // namespace carafe
