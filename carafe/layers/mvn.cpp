// y = (x - mean) / (deviation + eps) of each plane, or with across_channels of each image; without
// normalize_variance y = x - mean. The top always has 4 axes.
#include <fmt/format.h>

#include "carafe/kernels/channels.h"
#include "carafe/layers/layer.h"

namespace carafe {
namespace {

template <typename T>
class Mvn final : public Layer<T> {
 public:
  explicit Mvn(const LayerSpec& spec) : Layer<T>(spec), param_(spec.param().mvn_param()) {}
  Shapes InferShapes(const Shapes& bottom) const override {
    const Shape& x = bottom[0];
    this->spec().Check(
        x.rank() <= 4, "bottom",
        fmt::format("MVN takes a bottom of at most 4 axes, this one is {}", x.ToString()),
        "reshape the bottom");
    return {{x.LegacyDim(0), x.LegacyDim(1), x.LegacyDim(2), x.LegacyDim(3)}};
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    const int64_t rows = Rows(bottom[0]->shape());
    if (top[0]->count() == 0) return;
    factor_.Reshape({rows});
    NormalizeRows(run.stream, rows, top[0]->count() / rows, param_.normalize_variance(),
                  static_cast<T>(param_.eps()), bottom[0]->data(run.stream),
                  top[0]->mutable_data(run.stream), factor_.mutable_data(run.stream));
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    if (!propagate_down[0] || top[0]->count() == 0) return;
    const int64_t rows = Rows(bottom[0]->shape());
    NormalizeRowsBackward(run.stream, rows, top[0]->count() / rows, param_.normalize_variance(),
                          factor_.data(run.stream), top[0]->data(run.stream),
                          top[0]->diff(run.stream), bottom[0]->mutable_diff(run.stream));
  }

 private:
  int64_t Rows(const Shape& x) const {
    return param_.across_channels() ? x.LegacyDim(0) : x.LegacyDim(0) * x.LegacyDim(1);
  }
  const MVNParameter param_;
  Blob<T> factor_;  // per row: 1 / (deviation + eps)
};

const RegisterLayer<Mvn> kRegistered{{.type = "MVN",
                                      .bottoms = {1, 1},
                                      .tops = {1, 1},
                                      .summary = "Mean 0 and deviation 1 of each plane or image."}};

}  // namespace
}  // namespace carafe
