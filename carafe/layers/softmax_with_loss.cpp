// The softmax of the scores and the mean negative log of the label's probability:
//   loss = -1/n sum over items of log(max(p[label], FLT_MIN)),   dx = (p - onehot(label)) / n
// With loss_param.weight_by_label_freqs (SegNet) the loss of an item and its gradient are
// multiplied by class_weighting[label]; n still counts the items. With loss_param.label_smoothing e
// the label counts 1 - e and every class e / C in both.
//   bottoms: scores (.., C, ..) with the classes along `axis`, one label per item;
//   tops: loss (scalar), optionally the probabilities
#include <fmt/format.h>

#include <cfloat>

#include "carafe/kernels/loss.h"
#include "carafe/layers/softmax_loss.h"

namespace carafe {
namespace {

template <typename T>
class SoftmaxWithLoss final : public SoftmaxLossLayer<T> {
 public:
  explicit SoftmaxWithLoss(const LayerSpec& spec)
      : SoftmaxLossLayer<T>(spec, spec.param().softmax_param().axis()),
        smoothing_(static_cast<T>(spec.param().loss_param().label_smoothing())) {
    spec.Check(smoothing_ >= 0 && smoothing_ < 1, "loss_param.label_smoothing",
               fmt::format("label_smoothing is {}", spec.param().loss_param().label_smoothing()),
               "use a number from 0 to below 1, e.g. 0.1");
    const auto fork = ForkPart<ForkLossParameter>(spec.param().loss_param());
    if (!fork.weight_by_label_freqs()) return;
    weights_.assign(fork.class_weighting().begin(), fork.class_weighting().end());
    spec.Check(
        !weights_.empty() && smoothing_ == 0, "loss_param",
        "weight_by_label_freqs needs a class_weighting for each class, and no label_smoothing",
        "give class_weighting as often as there are classes");
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    Shapes tops = SoftmaxLossLayer<T>::InferShapes(bottom);
    const int axis = bottom[0].CanonicalAxis(this->spec().param().softmax_param().axis());
    this->spec().Check(weights_.empty() || Count(weights_) == bottom[0][axis], "loss_param",
                       fmt::format("class_weighting is given {} times for {} classes",
                                   weights_.size(), bottom[0][axis]),
                       "give one for each class");
    return tops;
  }

 private:
  // Weights are what Infogain's matrix has on its diagonal, with zeros elsewhere.
  const T* Diagonal(Stream& stream) {
    if (diagonal_.count() == 0) {
      const auto classes = weights_.size();
      std::vector<T> values(classes * classes, T(0));
      for (size_t c = 0; c < classes; ++c) values[c * classes + c] = weights_[c];
      diagonal_.Reshape({static_cast<int64_t>(values.size())});
      diagonal_.SetData(stream, values);
    }
    return diagonal_.data(stream);
  }
  void ItemLosses(Stream& stream, const ClassAxis& axis, const T* p, Blobs<T> bottom,
                  T* losses) override {
    const T* labels = bottom[1]->data(stream);
    if (!weights_.empty()) {
      InfogainLosses<T>(stream, axis, p, labels, this->ignore(), Diagonal(stream), FLT_MIN, losses);
    } else if (smoothing_ > 0) {
      SmoothedLogLoss<T>(stream, axis, p, labels, this->ignore(), smoothing_, FLT_MIN, losses);
    } else {
      LabelLogLoss<T>(stream, axis, p, labels, this->ignore(), FLT_MIN, losses);
    }
  }
  void ScoreGradient(Stream& stream, const ClassAxis& axis, const T* p, const T* weight,
                     T normalizer, Blobs<T> bottom) override {
    const T* labels = bottom[1]->data(stream);
    T* dx = bottom[0]->mutable_diff(stream);
    if (!weights_.empty()) {
      InfogainGradient(stream, axis, p, labels, this->ignore(), Diagonal(stream), weight,
                       normalizer, dx);
    } else if (smoothing_ > 0) {
      SmoothedLossBackward(stream, axis, p, labels, this->ignore(), smoothing_, weight, normalizer,
                           dx);
    } else {
      SoftmaxLossBackward(stream, axis, p, labels, this->ignore(), weight, normalizer, dx);
    }
  }

  const T smoothing_;
  std::vector<T> weights_;  // of the classes; empty: all 1
  Blob<T> diagonal_{Shape{0}};
};

const RegisterLayer<SoftmaxWithLoss> kRegistered{
    {.type = "SoftmaxWithLoss",
     .bottoms = {2, 2},
     .tops = {1, 2},
     .summary = "Mean negative log of the label's softmax probability.",
     .is_loss = true}};

}  // namespace
}  // namespace carafe
