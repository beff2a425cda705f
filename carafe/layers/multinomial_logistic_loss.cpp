// loss = -1/N sum of log(max(p[label], 1e-20)): bottom 0 holds probabilities, a row per label.
#include "carafe/kernels/loss.h"

#include "carafe/kernels/math.h"
#include "carafe/layers/loss.h"

namespace carafe {
namespace {

template <typename T>
class MultinomialLogisticLoss final : public LossLayer<T> {
 public:
  using LossLayer<T>::LossLayer;
  Shapes InferShapes(const Shapes& bottom) const override {
    this->CheckRows(bottom);
    MakeRowClasses(this->spec(), bottom[0], bottom[1]);
    return {Shape{}};
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const ClassAxis axis = MakeRowClasses(this->spec(), bottom[0]->shape(), bottom[1]->shape());
    const T* labels = bottom[1]->data(stream);
    CheckLabels(this->spec(), CountLabels<T>(stream, axis, labels, nullptr), axis.classes);
    losses_.Reshape({axis.items()});
    T* losses = losses_.mutable_data(stream);
    LabelLogLoss<T>(stream, axis, bottom[0]->data(stream), labels, nullptr, kFloor, losses);
    this->SetLoss(stream, top, Sum(stream, axis.items(), losses) / static_cast<double>(axis.outer));
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    this->CheckNoLabelGradient(propagate_down);
    if (!propagate_down[0]) return;
    Stream& stream = run.stream;
    const ClassAxis axis = MakeRowClasses(this->spec(), bottom[0]->shape(), bottom[1]->shape());
    LabelLogGradient<T>(stream, axis, bottom[0]->data(stream), bottom[1]->data(stream), kFloor,
                        top[0]->diff(stream), static_cast<T>(axis.outer),
                        bottom[0]->mutable_diff(stream));
  }

 private:
  static constexpr T kFloor = T(1e-20);
  Blob<T> losses_;
};

const RegisterLayer<MultinomialLogisticLoss> kRegistered{
    {.type = "MultinomialLogisticLoss",
     .bottoms = {2, 2},
     .tops = {1, 1},
     .summary = "Mean negative log of the label's given probability.",
     .is_loss = true}};

}  // namespace
}  // namespace carafe
