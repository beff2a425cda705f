// loss = 1/(2 M) sum |x_m - c_label(m)|^2 over the M rows (Wen et al. 2016, caffe-face). The
// centres c are the layer's parameter; what they get is not the gradient of the loss, but by that
// paper's rule for each class  sum over its rows of (c - x) / (1 + number of its rows).
//   bottoms: features (M, K), labels (M)  ->  top: scalar;  blob: centres (num_output, K)
#include <fmt/format.h>

#include <vector>

#include "carafe/kernels/blocks.h"
#include "carafe/kernels/combine.h"
#include "carafe/kernels/loss.h"
#include "carafe/kernels/math.h"
#include "carafe/layers/loss.h"
#include "carafe/proto/fork_messages.h"

namespace carafe {
namespace {

template <typename T>
class CenterLoss final : public LossLayer<T> {
 public:
  explicit CenterLoss(const LayerSpec& spec)
      : LossLayer<T>(spec), param_(ForkPart<ForkLayerParameter>(spec.param()).center_loss_param()) {
    spec.Check(param_.num_output() > 0, "center_loss_param", "num_output is 0 or missing",
               "give the number of classes");
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    this->CheckRows(bottom);
    this->spec().Check(
        bottom[1].Count() == bottom[0].LegacyDim(0), "bottom[1]",
        fmt::format("there are {} labels for {} rows", bottom[1].Count(), bottom[0].LegacyDim(0)),
        "give one label per row");
    return {Shape{}};
  }
  std::vector<ParamDef> DeclareParams(const Shapes& bottom) const override {
    return {{Shape{param_.num_output(), Width(bottom[0])}, param_.center_filler()}};
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const int64_t rows = bottom[0]->shape().LegacyDim(0), width = Width(bottom[0]->shape());
    ReadLabels(stream, *bottom[1]);
    for (Blob<T>* blob : {&distances_, &centers_}) blob->Reshape({rows, width});
    GatherRows<T, double>(stream, rows, width, labels_.data(stream), this->blob(0).data(stream),
                          centers_.mutable_data(stream));
    T* distances = distances_.mutable_data(stream);
    WeightedAdd<T>(stream, rows * width, 1, bottom[0]->data(stream), -1, centers_.data(stream),
                   distances);
    this->SetLoss(stream, top,
                  SumOfSquares(stream, rows * width, distances) / static_cast<double>(2 * rows));
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    Stream& stream = run.stream;
    this->CheckNoLabelGradient(propagate_down);
    const int64_t rows = bottom[0]->shape().LegacyDim(0), width = Width(bottom[0]->shape());
    if (this->param_propagate_down(0)) MoveCenters(stream, rows, width);
    if (!propagate_down[0]) return;
    ScaleByWeight<T>(stream, rows * width, static_cast<T>(1.0 / static_cast<double>(rows)),
                     top[0]->diff(stream), distances_.data(stream),
                     bottom[0]->mutable_diff(stream));
  }

 private:
  static int64_t Width(const Shape& x) {
    const int64_t rows = x.LegacyDim(0);
    return rows > 0 ? x.Count() / rows : 0;
  }
  void ReadLabels(Stream& stream, const Blob<T>& bottom) {
    host_labels_.clear();
    for (const T label : bottom.DataToHost(stream)) {
      const auto row = static_cast<int64_t>(host_labels_.size());
      if (label < 0 || label >= static_cast<T>(param_.num_output())) {
        CheckLabels(this->spec(), {.valid = 0, .bad = row, .bad_label = static_cast<double>(label)},
                    param_.num_output());
      }
      host_labels_.push_back(static_cast<double>(static_cast<int64_t>(label)));
    }
    labels_.Reshape({static_cast<int64_t>(host_labels_.size())});
    labels_.SetData(stream, host_labels_);
  }
  void MoveCenters(Stream& stream, int64_t rows, int64_t width) {
    std::vector<T> counts(param_.num_output(), T(1));
    for (const double label : host_labels_) counts[static_cast<size_t>(label)] += 1;
    std::vector<T> moves = distances_.DataToHost(stream);
    for (int64_t i = 0; i < rows * width; ++i) {
      At(moves, i) /= -counts[static_cast<size_t>(At(host_labels_, i / width))];
    }
    centers_.SetData(stream, moves);  // not needed any more
    ScatterAddRows<T, double>(stream, rows, width, labels_.data(stream), centers_.data(stream),
                              this->blob(0).mutable_diff(stream));
  }
  const CenterLossParameter param_;
  std::vector<double> host_labels_;
  Blob<double> labels_;
  Blob<T> distances_, centers_;  // of each row, of the last Forward
};

const RegisterLayer<CenterLoss> kRegistered{
    {.type = "CenterLoss",
     .bottoms = {2, 2},
     .tops = {1, 1},
     .summary = "Half the mean squared distance of rows to learned centres of their class.",
     .is_loss = true}};

}  // namespace
}  // namespace carafe
