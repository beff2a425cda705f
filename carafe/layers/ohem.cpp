// R-FCN's online hard example mining: losses that also give the loss of each region, and the choice
// of the regions to learn from.
//   SoftmaxWithLossOHEM: as SoftmaxWithLoss; third top: the loss of each item
//   SmoothL1LossOHEM: as SmoothL1Loss without outside weights; second top: the loss of each row
//   BoxAnnotatorOHEM: bottoms regions (R, 5), losses (R), labels (R), weights (R, ..); tops: labels
//   and weights, where all but the roi_per_img regions of the largest loss of each image have
//   ignore_label and 0
#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <map>
#include <vector>

#include "carafe/kernels/math.h"
#include "carafe/kernels/smooth_l1.h"
#include "carafe/layers/loss.h"
#include "carafe/proto/fork_messages.h"

namespace carafe {
namespace {

template <typename T>
class SoftmaxWithLossOhem final : public LossLayer<T> {
 public:
  explicit SoftmaxWithLossOhem(const LayerSpec& spec)
      : LossLayer<T>(spec), loss_(Settings(spec)), ignore_(spec.param().loss_param()) {}
  Shapes InferShapes(const Shapes& bottom) const override {
    this->CheckRows(bottom);
    const ClassAxis axis = AxisOf(bottom[0], bottom[1]);
    return {Shape{}, bottom[0], Shape{axis.outer, 1, axis.inner}};
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const ClassAxis axis = AxisOf(bottom[0]->shape(), bottom[1]->shape());
    const T* labels = bottom[1]->data(stream);
    const LabelCount count = CountLabels(stream, axis, labels, ignore_.get());
    CheckLabels(this->spec(), count, axis.classes);
    normalizer_ = loss_.fixed > 0
                      ? loss_.fixed
                      : LossNormalizer(loss_.mode, axis.items(), count.valid, axis.outer);
    T *p = top[1]->mutable_data(stream), *losses = top[2]->mutable_data(stream);
    SoftmaxForward(stream, axis, bottom[0]->data(stream), p);
    LabelLogLoss<T>(stream, axis, p, labels, ignore_.get(), FLT_MIN, losses);
    this->SetLoss(stream, top, Sum(stream, axis.items(), losses) / normalizer_);
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    this->CheckNoLabelGradient(propagate_down);
    if (!propagate_down[0]) return;
    Stream& stream = run.stream;
    SoftmaxLossBackward(stream, AxisOf(bottom[0]->shape(), bottom[1]->shape()),
                        top[1]->data(stream), bottom[1]->data(stream), ignore_.get(),
                        top[0]->diff(stream), static_cast<T>(normalizer_),
                        bottom[0]->mutable_diff(stream));
  }

 private:
  struct Normalization {
    LossParameter::NormalizationMode mode;
    double fixed;  // 0: by the mode
  };
  static Normalization Settings(const LayerSpec& spec) {
    const LossParameter& param = spec.param().loss_param();
    const auto fork = ForkPart<ForkLossParameter>(param);
    return {NormalizationOf(param, LossParameter::VALID),
            fork.pre_fixed() ? static_cast<double>(fork.pre_fixed_normalizer()) : 0};
  }
  ClassAxis AxisOf(const Shape& scores, const Shape& labels) const {
    return MakeClassAxis(this->spec(), scores, this->spec().param().softmax_param().axis(), labels);
  }
  const Normalization loss_;
  const IgnoreLabel ignore_;
  double normalizer_ = 1;  // of the last Forward
};

template <typename T>
class SmoothL1LossOhem final : public LossLayer<T> {
 public:
  explicit SmoothL1LossOhem(const LayerSpec& spec) : LossLayer<T>(spec) {
    const double sigma = spec.param().smooth_l1_loss_param().sigma();
    spec.Check(sigma > 0, "smooth_l1_loss_param.sigma", fmt::format("sigma is {}", sigma),
               "use a number above 0, e.g. sigma: 1");
    square_ = static_cast<T>(sigma * sigma);
    const auto fork = ForkPart<ForkLossParameter>(spec.param().loss_param());
    if (fork.pre_fixed()) pre_fixed_ = static_cast<double>(fork.pre_fixed_normalizer());
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    this->CheckSameSize(bottom);
    return {Shape{},
            Shape{bottom[0].LegacyDim(0), 1, bottom[0].LegacyDim(2) * bottom[0].LegacyDim(3)}};
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const int64_t n = bottom[0]->count();
    for (Blob<T>* blob : {&differences_, &losses_}) blob->Reshape({n});
    SmoothL1Losses<T>(stream, n, square_, bottom[0]->data(stream), bottom[1]->data(stream),
                      bottom.size() > 2 ? bottom[2]->data(stream) : nullptr, nullptr,
                      differences_.mutable_data(stream), losses_.mutable_data(stream));
    const T* losses = losses_.data(stream);
    this->SetLoss(stream, top, Sum(stream, n, losses) / Normalizer(bottom));
    if (top.size() < 2) return;
    // Rows are (channels, places): the losses of all channels of a place are added.
    const int64_t rows = top[1]->shape()[0], places = top[1]->count() / std::max<int64_t>(rows, 1);
    const std::vector<T> each = losses_.DataToHost(stream);
    std::vector<T> sums(static_cast<size_t>(top[1]->count()), T(0));
    const int64_t width = rows > 0 ? n / rows : 0;
    for (int64_t i = 0; i < n; ++i) {
      sums[static_cast<size_t>(i / width * places + i % width % places)] +=
          each[static_cast<size_t>(i)];
    }
    top[1]->SetData(stream, sums);
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    Stream& stream = run.stream;
    if (bottom.size() > 2) this->CheckNoLabelGradient(propagate_down, 2);
    for (size_t i = 0; i < 2; ++i) {
      if (!propagate_down[i]) continue;
      SmoothL1Gradient<T>(stream, bottom[0]->count(), square_, differences_.data(stream),
                          bottom.size() > 2 ? bottom[2]->data(stream) : nullptr, nullptr,
                          static_cast<T>((i == 0 ? 1 : -1) / Normalizer(bottom)),
                          top[0]->diff(stream), bottom[i]->mutable_diff(stream));
    }
  }
  bool AllowForceBackward(int bottom) const override { return bottom < 2; }

 private:
  double Normalizer(Blobs<T> bottom) const {
    return pre_fixed_ > 0 ? pre_fixed_ : static_cast<double>(bottom[0]->shape().LegacyDim(0));
  }
  T square_;              // of sigma
  double pre_fixed_ = 0;  // 0: the number of rows
  Blob<T> differences_, losses_;
};

template <typename T>
class BoxAnnotatorOhem final : public Layer<T> {
 public:
  explicit BoxAnnotatorOhem(const LayerSpec& spec)
      : Layer<T>(spec),
        param_(ForkPart<ForkLayerParameter>(spec.param()).box_annotator_ohem_param()) {
    spec.Check(param_.roi_per_img() > 0, "box_annotator_ohem_param", "roi_per_img is 0 or missing",
               "give the regions to learn from, e.g. 128");
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    const int64_t regions = bottom[0].LegacyDim(0);
    const bool fits = bottom[0].Count() == regions * 5 && bottom[1].Count() == regions &&
                      bottom[2].Count() == regions && bottom[3].LegacyDim(0) == regions;
    this->spec().Check(
        fits, "bottom",
        fmt::format("{} regions need as many losses, labels and rows of weights: {}, "
                    "{} and {}",
                    regions, bottom[1].ToString(), bottom[2].ToString(), bottom[3].ToString()),
        "give regions (R, 5), losses (R), labels (R) and weights (R, ..)");
    return {bottom[2], bottom[3]};
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const std::vector<T> regions = bottom[0]->DataToHost(stream);
    const std::vector<T> losses = bottom[1]->DataToHost(stream);
    std::vector<T> labels = bottom[2]->DataToHost(stream);
    std::vector<T> weights = bottom[3]->DataToHost(stream);
    std::map<T, std::vector<size_t>> of_image;
    for (size_t r = 0; r < losses.size(); ++r) of_image[regions[r * 5]].push_back(r);
    const size_t width = losses.empty() ? 0 : weights.size() / losses.size();
    for (auto& [image, order] : of_image) {
      std::ranges::stable_sort(order, [&](size_t a, size_t b) { return losses[a] > losses[b]; });
      for (size_t i = param_.roi_per_img(); i < order.size(); ++i) {
        labels[order[i]] = static_cast<T>(param_.ignore_label());
        std::fill_n(weights.begin() + static_cast<std::ptrdiff_t>(order[i] * width), width, T(0));
      }
    }
    top[0]->SetData(stream, labels);
    top[1]->SetData(stream, weights);
  }
  void Backward(RunContext&, Blobs<T>, const std::vector<bool>& propagate_down, Blobs<T>) override {
    for (const bool asked : propagate_down) {
      this->spec().Check(!asked, "propagate_down", "the choice of regions has no gradient",
                         "set propagate_down: false for each bottom");
    }
  }
  bool AllowForceBackward(int) const override { return false; }

 private:
  const BoxAnnotatorOHEMParameter param_;
};

const RegisterLayer<SoftmaxWithLossOhem> kSoftmax{
    {.type = "SoftmaxWithLossOHEM",
     .bottoms = {2, 2},
     .tops = {3, 3},
     .summary = "SoftmaxWithLoss that also gives each item's loss (R-FCN).",
     .is_loss = true}};
const RegisterLayer<SmoothL1LossOhem> kSmoothL1{
    {.type = "SmoothL1LossOHEM",
     .bottoms = {2, 3},
     .tops = {1, 2},
     .summary = "SmoothL1Loss that also gives each row's loss (R-FCN).",
     .is_loss = true}};
const RegisterLayer<BoxAnnotatorOhem> kAnnotator{
    {.type = "BoxAnnotatorOHEM",
     .bottoms = {4, 4},
     .tops = {2, 2},
     .summary = "Keeps the labels of the regions of the largest loss (R-FCN)."}};

}  // namespace
}  // namespace carafe
