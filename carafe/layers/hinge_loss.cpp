// One class against all others: loss = sum of max(0, 1 - t x)^p / N, t being 1 for the label's
// class and -1 for the others, p 1 (L1) or 2 (L2).
#include "carafe/kernels/loss.h"

#include "carafe/kernels/math.h"
#include "carafe/layers/loss.h"

namespace carafe {
namespace {

template <typename T>
class HingeLoss final : public LossLayer<T> {
 public:
  explicit HingeLoss(const LayerSpec& spec)
      : LossLayer<T>(spec),
        squared_(spec.param().hinge_loss_param().norm() == HingeLossParameter::L2) {}
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
    margins_.Reshape(bottom[0]->shape());
    T* margins = margins_.mutable_data(stream);
    HingeMargins(stream, axis, bottom[0]->data(stream), labels, margins);
    const double sum = squared_ ? SumOfSquares(stream, margins_.count(), margins)
                                : Sum(stream, margins_.count(), margins);
    this->SetLoss(stream, top, sum / static_cast<double>(axis.outer));
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    this->CheckNoLabelGradient(propagate_down);
    if (!propagate_down[0]) return;
    Stream& stream = run.stream;
    const ClassAxis axis = MakeRowClasses(this->spec(), bottom[0]->shape(), bottom[1]->shape());
    HingeGradient<T>(stream, axis, squared_, margins_.data(stream), bottom[1]->data(stream),
                     top[0]->diff(stream), static_cast<T>(axis.outer),
                     bottom[0]->mutable_diff(stream));
  }

 private:
  const bool squared_;
  Blob<T> margins_;
};

const RegisterLayer<HingeLoss> kRegistered{
    {.type = "HingeLoss",
     .bottoms = {2, 2},
     .tops = {1, 1},
     .summary = "One-against-all hinge, L1 or L2, as in support vector machines.",
     .is_loss = true}};

}  // namespace
}  // namespace carafe
