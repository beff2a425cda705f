// For pairs of rows a, b that are similar (bottom 2 is not 0) or not, with d = |a - b|:
//   loss = 1/(2N) sum of ( similar ? d^2 : max(margin - d, 0)^2 ), legacy: max(margin - d^2, 0)
#include <fmt/format.h>

#include "carafe/kernels/loss.h"
#include "carafe/kernels/math.h"
#include "carafe/layers/loss.h"

namespace carafe {
namespace {

template <typename T>
class ContrastiveLoss final : public LossLayer<T> {
 public:
  explicit ContrastiveLoss(const LayerSpec& spec)
      : LossLayer<T>(spec), param_(spec.param().contrastive_loss_param()) {}
  Shapes InferShapes(const Shapes& bottom) const override {
    this->CheckRows(bottom);
    const Shape &a = bottom[0], &b = bottom[1];
    this->spec().Check(a.LegacyDim(1) == b.LegacyDim(1) &&
                           a.Count() == a.LegacyDim(0) * a.LegacyDim(1) && b.Count() == a.Count(),
                       "bottom",
                       fmt::format("the pairs are to be rows of equal width, not {} and {}",
                                   a.ToString(), b.ToString()),
                       "give two bottoms of shape (N, C)");
    this->spec().Check(bottom[2].Count() == a.LegacyDim(0), "bottom[2]",
                       fmt::format("there are {} marks of similarity for {} pairs",
                                   bottom[2].Count(), a.LegacyDim(0)),
                       "give one number per pair");
    return {Shape{}};
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const int64_t rows = bottom[0]->shape().LegacyDim(0);
    for (Blob<T>* blob : {&losses_, &factors_}) blob->Reshape({rows});
    T* losses = losses_.mutable_data(stream);
    ContrastiveLosses<T>(stream, rows, bottom[0]->shape().LegacyDim(1),
                         static_cast<T>(param_.margin()), param_.legacy_version(),
                         bottom[0]->data(stream), bottom[1]->data(stream), bottom[2]->data(stream),
                         losses, factors_.mutable_data(stream));
    this->SetLoss(stream, top, Sum(stream, rows, losses) / (2 * static_cast<double>(rows)));
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    this->CheckNoLabelGradient(propagate_down, 2);
    Stream& stream = run.stream;
    const int64_t rows = bottom[0]->shape().LegacyDim(0);
    for (size_t i = 0; i < 2; ++i) {
      if (!propagate_down[i]) continue;
      ContrastiveGradient<T>(stream, rows, bottom[0]->shape().LegacyDim(1), i == 0 ? 1 : -1,
                             bottom[0]->data(stream), bottom[1]->data(stream),
                             factors_.data(stream), top[0]->diff(stream), static_cast<T>(rows),
                             bottom[i]->mutable_diff(stream));
    }
  }
  bool AllowForceBackward(int bottom) const override { return bottom != 2; }

 private:
  const ContrastiveLossParameter param_;
  Blob<T> losses_, factors_;  // per pair
};

const RegisterLayer<ContrastiveLoss> kRegistered{
    {.type = "ContrastiveLoss",
     .bottoms = {3, 3},
     .tops = {1, 1},
     .summary = "Draws similar pairs together and keeps others a margin apart.",
     .is_loss = true}};

}  // namespace
}  // namespace carafe
