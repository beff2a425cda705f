// The share of items whose label is among the top_k scores. A label counts as found if fewer than
// top_k other classes score at least as high, so ties are lost.
//   bottoms: scores (.., C, ..), one label per item;  tops: the share (scalar), optionally per
//   class
#include <fmt/format.h>

#include "carafe/kernels/softmax.h"
#include "carafe/layers/loss.h"

namespace carafe {
namespace {

template <typename T>
class Accuracy final : public Layer<T> {
 public:
  explicit Accuracy(const LayerSpec& spec)
      : Layer<T>(spec),
        param_(spec.param().accuracy_param()),
        ignore_(spec.param().accuracy_param()) {}
  Shapes InferShapes(const Shapes& bottom) const override {
    const ClassAxis axis = MakeClassAxis(this->spec(), bottom[0], param_.axis(), bottom[1]);
    this->spec().Check(
        static_cast<int64_t>(param_.top_k()) <= axis.classes, "accuracy_param.top_k",
        fmt::format("top_k is {}, but there are {} classes", param_.top_k(), axis.classes),
        "use a top_k of at most the number of classes");
    Shapes tops = {Shape{}};
    if (this->spec().param().top_size() > 1) tops.push_back({axis.classes});
    return tops;
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const ClassAxis axis =
        MakeClassAxis(this->spec(), bottom[0]->shape(), param_.axis(), bottom[1]->shape());
    const T* labels = bottom[1]->data(stream);
    CheckLabels(this->spec(), CountLabels(stream, axis, labels, ignore_.get()), axis.classes);
    hits_.Reshape({axis.items()});
    LabelHits<T>(stream, axis, bottom[0]->data(stream), labels, ignore_.get(), param_.top_k(),
                 hits_.mutable_data(stream));

    std::vector<T> found(static_cast<size_t>(axis.classes)), all(found.size());
    const std::vector<T> hits = hits_.DataToHost(stream), label = bottom[1]->DataToHost(stream);
    T total_found = 0, total = 0;
    for (size_t i = 0; i < hits.size(); ++i) {
      if (hits[i] < 0) continue;
      total_found += hits[i];
      total += 1;
      found[static_cast<size_t>(label[i])] += hits[i];
      all[static_cast<size_t>(label[i])] += 1;
    }
    const T share = total > 0 ? total_found / total : T(0);
    top[0]->SetData(stream, std::span<const T>(&share, 1));
    if (top.size() < 2) return;
    for (size_t c = 0; c < found.size(); ++c) found[c] = all[c] > 0 ? found[c] / all[c] : T(0);
    top[1]->SetData(stream, found);
  }
  void Backward(RunContext&, Blobs<T>, const std::vector<bool>& propagate_down, Blobs<T>) override {
    for (const bool wanted : propagate_down) {
      this->spec().Check(!wanted, "loss_weight", "Accuracy has no gradient",
                         "leave its loss_weight away and train on a loss layer");
    }
  }

 private:
  const AccuracyParameter param_;
  const IgnoreLabel ignore_;
  Blob<T> hits_;
};

const RegisterLayer<Accuracy> kRegistered{
    {.type = "Accuracy",
     .bottoms = {2, 2},
     .tops = {1, 2},
     .summary = "Share of items whose label is among the highest scores."}};

}  // namespace
}  // namespace carafe
