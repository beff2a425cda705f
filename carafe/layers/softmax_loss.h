// What SoftmaxWithLoss and InfogainLoss share: the softmax of the scores, one loss per item, and
// their sum divided by a normaliser.
//   bottoms: scores (.., C, ..) with the classes along `axis`, one label per item, ..
//   tops: loss (scalar), optionally the probabilities
#pragma once

#include <fmt/format.h>

#include <vector>

#include "carafe/kernels/math.h"
#include "carafe/layers/loss.h"
#include "carafe/proto/fork_messages.h"

namespace carafe {

// Run by one thread at a time, like every layer.
template <typename T>
class SoftmaxLossLayer : public LossLayer<T> {
 public:
  SoftmaxLossLayer(const LayerSpec& spec, int axis)
      : LossLayer<T>(spec),
        axis_(axis),
        mode_(NormalizationOf(spec.param().loss_param(), LossParameter::VALID)),
        ignore_(spec.param().loss_param()) {
    const auto fork = ForkPart<ForkLossParameter>(spec.param().loss_param());
    if (fork.pre_fixed()) pre_fixed_ = static_cast<double>(fork.pre_fixed_normalizer());
    spec.Check(fork.pre_fixed_normalizer() > 0, "loss_param",
               fmt::format("pre_fixed_normalizer is {}", fork.pre_fixed_normalizer()),
               "use a number above 0");
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    this->CheckRows(bottom);
    MakeClassAxis(this->spec(), bottom[0], axis_, bottom[1]);
    Shapes tops = {Shape{}};
    if (this->spec().param().top_size() > 1) tops.push_back(bottom[0]);
    return tops;
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) final {
    Stream& stream = run.stream;
    const ClassAxis axis = AxisOf(bottom);
    const LabelCount count = CountLabels(stream, axis, bottom[1]->data(stream), ignore_.get());
    CheckLabels(this->spec(), count, axis.classes);
    normalizer_ =
        pre_fixed_ > 0 ? pre_fixed_ : LossNormalizer(mode_, axis.items(), count.valid, axis.outer);
    Blob<T>& probabilities = Probabilities(top);
    probabilities.Reshape(bottom[0]->shape());
    T* p = probabilities.mutable_data(stream);
    SoftmaxForward(stream, axis, bottom[0]->data(stream), p);
    losses_.Reshape({axis.items()});
    T* losses = losses_.mutable_data(stream);
    ItemLosses(stream, axis, p, bottom, losses);
    this->SetLoss(stream, top, Sum(stream, axis.items(), losses) / normalizer_);
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) final {
    for (int b = 1; b < static_cast<int>(bottom.size()); ++b) {
      this->CheckNoLabelGradient(propagate_down, b);
    }
    if (!propagate_down[0]) return;
    Stream& stream = run.stream;
    ScoreGradient(stream, AxisOf(bottom), Probabilities(top).data(stream), top[0]->diff(stream),
                  static_cast<T>(normalizer_), bottom);
  }

 protected:
  // losses[item], 0 where the label is ignored; p are the probabilities.
  virtual void ItemLosses(Stream& stream, const ClassAxis& axis, const T* p, Blobs<T> bottom,
                          T* losses) = 0;
  // Writes the scores' diff: the gradient of the sum of all losses, times weight[0] / normalizer.
  virtual void ScoreGradient(Stream& stream, const ClassAxis& axis, const T* p, const T* weight,
                             T normalizer, Blobs<T> bottom) = 0;
  const int* ignore() const { return ignore_.get(); }  // null: no label is ignored

 private:
  ClassAxis AxisOf(Blobs<T> bottom) const {
    return MakeClassAxis(this->spec(), bottom[0]->shape(), axis_, bottom[1]->shape());
  }
  Blob<T>& Probabilities(Blobs<T> top) { return top.size() > 1 ? *top[1] : probabilities_; }

  const int axis_;
  const LossParameter::NormalizationMode mode_;
  const IgnoreLabel ignore_;
  double pre_fixed_ = 0;   // R-FCN's pre_fixed_normalizer, which comes before the mode; 0: none
  double normalizer_ = 1;  // of the last Forward
  Blob<T> probabilities_, losses_;
};

}  // namespace carafe
