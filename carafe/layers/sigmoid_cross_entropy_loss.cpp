// loss = sum of -t log(sigmoid(x)) - (1 - t) log(1 - sigmoid(x)) over all elements, divided by the
// batch size unless loss_param says otherwise. Targets t lie in [0, 1].
#include <fmt/format.h>

#include "carafe/kernels/loss.h"
#include "carafe/kernels/math.h"
#include "carafe/layers/loss.h"

namespace carafe {
namespace {

template <typename T>
class SigmoidCrossEntropyLoss final : public LossLayer<T> {
 public:
  explicit SigmoidCrossEntropyLoss(const LayerSpec& spec)
      : LossLayer<T>(spec),
        mode_(NormalizationOf(spec.param().loss_param(), LossParameter::BATCH_SIZE)),
        ignore_(spec.param().loss_param()) {}
  Shapes InferShapes(const Shapes& bottom) const override {
    this->CheckRows(bottom);
    this->spec().Check(bottom[0].Count() == bottom[1].Count(), "bottom",
                       fmt::format("the bottoms have different numbers of elements: {} and {}",
                                   bottom[0].ToString(), bottom[1].ToString()),
                       "give one target per score");
    return {Shape{}};
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const int64_t n = bottom[0]->count();
    for (Blob<T>* blob : {&losses_, &valid_}) blob->Reshape(bottom[0]->shape());
    T *losses = losses_.mutable_data(stream), *valid = valid_.mutable_data(stream);
    SigmoidLosses(stream, n, bottom[0]->data(stream), bottom[1]->data(stream), ignore_.get(),
                  losses, valid);
    normalizer_ = LossNormalizer(mode_, n, static_cast<int64_t>(Sum(stream, n, valid)),
                                 bottom[0]->shape().LegacyDim(0));
    this->SetLoss(stream, top, Sum(stream, n, losses) / normalizer_);
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    this->CheckNoLabelGradient(propagate_down);
    if (!propagate_down[0]) return;
    Stream& stream = run.stream;
    SigmoidLossGradient<T>(stream, bottom[0]->count(), bottom[0]->data(stream),
                           bottom[1]->data(stream), ignore_.get(), top[0]->diff(stream),
                           static_cast<T>(normalizer_), bottom[0]->mutable_diff(stream));
  }

 private:
  const LossParameter::NormalizationMode mode_;
  const IgnoreLabel ignore_;
  double normalizer_ = 1;  // of the last Forward
  Blob<T> losses_, valid_;
};

const RegisterLayer<SigmoidCrossEntropyLoss> kRegistered{
    {.type = "SigmoidCrossEntropyLoss",
     .bottoms = {2, 2},
     .tops = {1, 1},
     .summary = "Cross-entropy of independent yes-or-no targets.",
     .is_loss = true}};

}  // namespace
}  // namespace carafe
