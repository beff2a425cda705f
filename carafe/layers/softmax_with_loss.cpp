// The softmax of the scores and the mean negative log of the label's probability:
//   loss = -1/n sum over items of log(max(p[label], FLT_MIN)),   dx = (p - onehot(label)) / n
// With loss_param.label_smoothing e the label counts 1 - e and every class e / C in both.
//   bottoms: scores (.., C, ..) with the classes along `axis`, one label per item;
//   tops: loss (scalar), optionally the probabilities
#include <fmt/format.h>

#include <cfloat>

#include "carafe/kernels/math.h"
#include "carafe/layers/loss.h"

namespace carafe {
namespace {

template <typename T>
class SoftmaxWithLoss final : public LossLayer<T> {
 public:
  explicit SoftmaxWithLoss(const LayerSpec& spec)
      : LossLayer<T>(spec),
        axis_(spec.param().softmax_param().axis()),
        mode_(NormalizationOf(spec.param().loss_param(), LossParameter::VALID)),
        ignore_(spec.param().loss_param()),
        smoothing_(static_cast<T>(spec.param().loss_param().label_smoothing())) {
    spec.Check(smoothing_ >= 0 && smoothing_ < 1, "loss_param.label_smoothing",
               fmt::format("label_smoothing is {}", spec.param().loss_param().label_smoothing()),
               "use a number from 0 to below 1, e.g. 0.1");
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    this->CheckRows(bottom);
    MakeClassAxis(this->spec(), bottom[0], axis_, bottom[1]);
    Shapes tops = {Shape{}};
    if (this->spec().param().top_size() > 1) tops.push_back(bottom[0]);
    return tops;
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const ClassAxis axis =
        MakeClassAxis(this->spec(), bottom[0]->shape(), axis_, bottom[1]->shape());
    const T* labels = bottom[1]->data(stream);
    const LabelCount count = CountLabels(stream, axis, labels, ignore_.get());
    CheckLabels(this->spec(), count, axis.classes);
    normalizer_ = LossNormalizer(mode_, axis.items(), count.valid, axis.outer);

    Blob<T>& probabilities = Probabilities(top);
    probabilities.Reshape(bottom[0]->shape());
    T* p = probabilities.mutable_data(stream);
    SoftmaxForward(stream, axis, bottom[0]->data(stream), p);
    losses_.Reshape({axis.items()});
    T* losses = losses_.mutable_data(stream);
    if (smoothing_ > 0) {
      SmoothedLogLoss<T>(stream, axis, p, labels, ignore_.get(), smoothing_, FLT_MIN, losses);
    } else {
      LabelLogLoss<T>(stream, axis, p, labels, ignore_.get(), FLT_MIN, losses);
    }
    this->SetLoss(stream, top, Sum(stream, axis.items(), losses) / normalizer_);
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    this->CheckNoLabelGradient(propagate_down);
    if (!propagate_down[0]) return;
    Stream& stream = run.stream;
    const ClassAxis axis =
        MakeClassAxis(this->spec(), bottom[0]->shape(), axis_, bottom[1]->shape());
    const T *p = Probabilities(top).data(stream), *labels = bottom[1]->data(stream);
    const T* weight = top[0]->diff(stream);
    const T normalizer = static_cast<T>(normalizer_);
    T* dx = bottom[0]->mutable_diff(stream);
    if (smoothing_ > 0) {
      SmoothedLossBackward(stream, axis, p, labels, ignore_.get(), smoothing_, weight, normalizer,
                           dx);
    } else {
      SoftmaxLossBackward(stream, axis, p, labels, ignore_.get(), weight, normalizer, dx);
    }
  }

 private:
  Blob<T>& Probabilities(Blobs<T> top) { return top.size() > 1 ? *top[1] : probabilities_; }

  const int axis_;
  const LossParameter::NormalizationMode mode_;
  const IgnoreLabel ignore_;
  const T smoothing_;
  double normalizer_ = 1;  // of the last Forward
  Blob<T> probabilities_, losses_;
};

const RegisterLayer<SoftmaxWithLoss> kRegistered{
    {.type = "SoftmaxWithLoss",
     .bottoms = {2, 2},
     .tops = {1, 2},
     .summary = "Mean negative log of the label's softmax probability.",
     .is_loss = true}};

}  // namespace
}  // namespace carafe
