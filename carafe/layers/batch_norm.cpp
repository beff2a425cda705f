// y = (x - mean) / sqrt(variance + eps) per channel (axis 1), over all other axes.
// With batch statistics Forward also updates the running ones, blobs that are not learned:
//   blob 2: f = lambda f + 1;  blob 0: lambda b0 + mean;  blob 1: lambda b1 + variance m / (m - 1)
// with m elements per channel. Global statistics are b0 / f and b1 / f (0 while f is 0). In TEST
// they are used unless use_global_stats says otherwise. May run in place.
// Where several workers train and ask for it (RunContext::sync_batch_norm) the batch is that of
// all. With scale_filler, bias_filler or scale_bias (Caffe-MPI, caffe-parallel) two learned blobs
// follow, and y = scale_c * (x - mean) / sqrt(variance + eps) + bias_c.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "carafe/kernels/activation.h"
#include "carafe/kernels/blocked_channels.h"
#include "carafe/kernels/channels.h"
#include "carafe/kernels/math.h"
#include "carafe/layers/layer.h"
#include "carafe/layers/memory_format.h"
#include "carafe/proto/batch_norm_dialect.h"

namespace carafe {
namespace {

template <typename T>
class BatchNorm final : public Layer<T> {
 public:
  explicit BatchNorm(const LayerSpec& spec)
      : Layer<T>(spec), param_(spec.param().batch_norm_param()), scales_(ScalesAndShifts(param_)) {
    global_ = param_.has_use_global_stats() ? param_.use_global_stats() : spec.phase() == TEST;
    const int statistics = scales_ ? kScale : spec.param().param_size();
    for (int i = 0; i < std::min(statistics, spec.param().param_size()); ++i) {
      spec.Check(spec.param().param(i).lr_mult() == 0, fmt::format("param[{}].lr_mult", i),
                 "the running statistics of BatchNorm cannot be learned",
                 "set lr_mult: 0, or remove param");
    }
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    this->spec().Check(
        bottom[0].rank() >= 2, "bottom",
        fmt::format("BatchNorm needs a bottom of 2 axes or more (N, C, ..), this one "
                    "is {}",
                    bottom[0].ToString()),
        "reshape the bottom");
    return {bottom[0]};
  }
  std::vector<ParamDef> DeclareParams(const Shapes& bottom) const override {
    const Shape channels{bottom[0][1]};
    std::vector<ParamDef> params = {{.shape = channels, .learned = false},
                                    {.shape = channels, .learned = false},
                                    {.shape = {1}, .learned = false}};
    if (!scales_) return params;
    FillerParameter scale = param_.scale_filler();
    if (!param_.has_scale_filler()) scale.set_value(1);
    params.push_back({.shape = channels, .filler = scale});
    params.push_back({.shape = channels, .filler = param_.bias_filler()});
    return params;
  }
  BackwardReads ReadsInBackward() const override {
    const bool in_place = this->spec().InPlace();
    return {.bottom = !in_place, .top = false, .kept = in_place};
  }
  FusibleFollowers CanFuse() const override { return {.scale = !scales_, .relu = true}; }
  void Fuse(const Followers<T>& followers) override { followers_ = followers; }
  FollowerRole RoleAsFollower() const override {
    return global_ ? FollowerRole::kChannelNorm : FollowerRole::kNone;
  }
  // y = f (x + b - mean) a + c: s = f a, t = (b - mean) s + c
  void ChannelCoefficients(Stream& stream, const Blob<T>* b, Blob<T>* s, Blob<T>* t) override {
    const int64_t channels = this->blob(kMean).count();
    LoadGlobalStatistics(stream, channels);
    for (Blob<T>* blob : {s, t}) blob->Reshape({channels});
    T *factor = s->mutable_data(stream), *shifted = t->mutable_data(stream);
    InverseDeviation<T>(stream, channels, static_cast<T>(param_.eps()), variance_.data(stream),
                        factor);
    if (scale() != nullptr) Multiply<T>(stream, channels, factor, scale()->data(stream), factor);
    Scale<T>(stream, channels, -1, mean_.data(stream), shifted);
    if (b != nullptr) Axpy<T>(stream, channels, 1, b->data(stream), shifted);
    Multiply<T>(stream, channels, shifted, factor, shifted);
    if (shift() != nullptr) Axpy<T>(stream, channels, 1, shift()->data(stream), shifted);
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const ChannelAxis axis = AxisOf(bottom[0]->shape());
    joined_ = !global_ && run.sync_batch_norm && run.group != nullptr;
    format_ = joined_ ? Format::kPlain : CommonFormat(stream, *bottom[0], *top[0]);
    const T* x = bottom[0]->data(stream, format_);
    for (Blob<T>* blob : {&mean_, &variance_, &factor_}) blob->Reshape({axis.channels});
    T* mean = mean_.mutable_data(stream);
    T* variance = variance_.mutable_data(stream);
    if (global_) {
      LoadGlobalStatistics(stream, axis.channels);
    } else {
      if constexpr (std::is_same_v<T, float>) {
        if (format_ == Format::kBlocked8) {
          BlockedStatistics(stream, bottom[0]->blocked_geometry(), x, mean, variance);
        }
      }
      if (format_ == Format::kPlain) ChannelStatistics(stream, axis, x, mean, variance);
      elements_ = axis.per_channel();
      if (joined_) JoinStatistics(run, axis);
      UpdateRunningStatistics(stream, axis);
    }
    InverseDeviation(stream, axis.channels, static_cast<T>(param_.eps()), variance,
                     factor_.mutable_data(stream));
    if constexpr (std::is_same_v<T, float>) {
      if (format_ == Format::kBlocked8) return BlockedForward(stream, bottom[0], top[0]);
    }
    T* y = top[0]->overwrite_data(stream);
    NormalizeChannels<T>(stream, axis, mean, factor_.data(stream), x, y);
    if (KeepsInput()) {  // a layer above may change y in place before Backward needs it
      normalized_.Reshape(top[0]->shape());
      stream.Copy(normalized_.mutable_data(stream), y, static_cast<size_t>(top[0]->count()));
    }
    if (scale() != nullptr) ScaleChannels<T>(stream, axis, scale()->data(stream), y, y);
    if (shift() != nullptr) {
      AddToChannels(stream, axis.outer, axis.channels, axis.inner, shift()->data(stream), y);
    }
    if (followers_.relu) ReluForward<T>(stream, top[0]->count(), 0, y, y);
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    Stream& stream = run.stream;
    const ChannelAxis axis = AxisOf(bottom[0]->shape());
    if constexpr (std::is_same_v<T, float>) {
      if (format_ == Format::kBlocked8) {
        return BlockedBackward(stream, top[0], propagate_down[0], bottom[0]);
      }
    }
    if (followers_.relu) {
      T* all = top[0]->mutable_diff(stream);
      ReluBackward<T>(stream, top[0]->count(), 0, top[0]->data(stream), all, all);
    }
    const T* dy = top[0]->diff(stream);
    if (LearnsScale()) {  // before dx, which may be dy
      AddChannelProducts(stream, axis, dy, normalized_.data(stream), scale()->mutable_diff(stream));
    }
    if (LearnsShift()) {
      AddChannelSums(stream, axis.outer, axis.channels, axis.inner, dy,
                     shift()->mutable_diff(stream));
    }
    if (!propagate_down[0]) return;
    T* dx = bottom[0]->overwrite_diff(stream);
    if (scale() != nullptr) {
      ScaleChannels<T>(stream, axis, scale()->data(stream), dy, dx);
      dy = dx;
    }
    if (global_) {
      ScaleChannels(stream, axis, factor_.data(stream), dy, dx);
    } else if (joined_) {
      BackwardOverAll(run, axis, dy, dx);
    } else {
      NormalizeBackward(stream, axis, factor_.data(stream), normalized_.data(stream), dy, dx);
    }
  }

 private:
  enum { kMean, kVariance, kFactor, kScale, kBias };
  // The learned numbers after the normalisation, its own or those of a Scale layer that follows.
  Blob<T>* scale() {
    if (scales_) return &this->blob(kScale);
    return followers_.scale == nullptr ? nullptr : &followers_.scale->blob(0);
  }
  Blob<T>* shift() {
    if (scales_) return &this->blob(kBias);
    const bool shifts = followers_.scale != nullptr && followers_.scale->blobs().size() > 1;
    return shifts ? &followers_.scale->blob(1) : nullptr;
  }
  bool LearnsScale() {
    if (scales_) return this->param_propagate_down(kScale);
    return scale() != nullptr && followers_.scale->param_propagate_down(0);
  }
  bool LearnsShift() {
    if (scales_) return this->param_propagate_down(kBias);
    return shift() != nullptr && followers_.scale->param_propagate_down(1);
  }
  // Whether Backward needs x, or its normalised form.
  bool KeepsInput() { return this->keeps_for_backward() && (!global_ || scale() != nullptr); }
  // In place x is gone after this, so that it is put aside; else Backward finds x where it was.
  void BlockedForward(Stream& stream, Blob<float>* bottom, Blob<float>* top) {
    aside_ = KeepsInput() && bottom->SharesDataWith(*top);
    if (aside_) bottom->MoveDataTo(&input_);
    const float* x = (aside_ ? input_ : *bottom).data(stream, format_);
    BlockedNormalize(stream, bottom->blocked_geometry(), mean_.data(stream), factor_.data(stream),
                     scale() == nullptr ? nullptr : scale()->data(stream),
                     shift() == nullptr ? nullptr : shift()->data(stream), followers_.relu, x,
                     /*normalized=*/nullptr, top->overwrite_data(stream, format_));
  }
  void BlockedBackward(Stream& stream, Blob<float>* top, bool propagate_down, Blob<float>* bottom) {
    const BlockedGeometry g = bottom->blocked_geometry();
    BlockedNormalizeGradient d;
    d.dy = top->diff(stream, format_);
    if (followers_.relu) d.relu_of = top->data(stream, format_);
    d.factor = factor_.data(stream);
    if (scale() != nullptr) d.scale = scale()->data(stream);
    if (LearnsScale()) d.dscale = scale()->mutable_diff(stream);
    if (LearnsShift()) d.dshift = shift()->mutable_diff(stream);
    if (propagate_down) d.dx = bottom->overwrite_diff(stream, format_);
    d.constant_statistics = global_;
    if (KeepsInput()) {
      d.mean = mean_.data(stream);
      d.x = (aside_ ? input_ : *bottom).data(stream, format_);
    }
    BlockedNormalizeBackward(stream, g, d);
    if (aside_) input_.ReleaseData();
  }
  static ChannelAxis AxisOf(const Shape& x) { return {x[0], x[1], x.Count(2)}; }
  T FactorOnHost(Stream& stream) {
    T factor = 0;
    stream.CopyToHost(std::span<T>(&factor, 1), this->blob(kFactor).data(stream));
    return factor;
  }
  void LoadGlobalStatistics(Stream& stream, int64_t channels) {
    for (Blob<T>* blob : {&mean_, &variance_}) blob->Reshape({channels});
    const T factor = FactorOnHost(stream);
    const T scale = factor == 0 ? T(0) : 1 / factor;
    Scale(stream, channels, scale, this->blob(kMean).data(stream), mean_.mutable_data(stream));
    Scale(stream, channels, scale, this->blob(kVariance).data(stream),
          variance_.mutable_data(stream));
  }
  // Mean and variance become those of all workers' rows together.
  void JoinStatistics(RunContext& run, ChannelAxis axis) {
    Stream& stream = run.stream;
    std::vector<T> mean = mean_.DataToHost(stream);
    std::vector<T> variance = variance_.DataToHost(stream);
    const size_t channels = mean.size();
    const double m = static_cast<double>(axis.per_channel());
    std::vector<double> sums(1 + 2 * channels);  // m; m mean; m (variance + mean^2)
    sums[0] = m;
    for (size_t c = 0; c < channels; ++c) {
      const double middle = static_cast<double>(mean[c]);
      sums[1 + c] = m * middle;
      sums[1 + channels + c] = m * (static_cast<double>(variance[c]) + middle * middle);
    }
    run.group->Sum(sums);
    elements_ = static_cast<int64_t>(sums[0]);
    for (size_t c = 0; c < channels; ++c) {
      const double middle = sums[1 + c] / sums[0];
      mean[c] = static_cast<T>(middle);
      variance[c] =
          static_cast<T>(std::max(sums[1 + channels + c] / sums[0] - middle * middle, 0.0));
    }
    mean_.SetData(stream, mean);
    variance_.SetData(stream, variance);
  }
  // A worker's gradients weigh rows * workers / all rows in the mean over workers, so they count as
  // much in the sums, which come back divided by it.
  void BackwardOverAll(RunContext& run, ChannelAxis axis, const T* dy, T* dx) {
    Stream& stream = run.stream;
    for (Blob<T>* blob : {&dy_mean_, &dyy_mean_}) {
      blob->Reshape({axis.channels});
      stream.Zero(blob->mutable_data(stream), static_cast<size_t>(axis.channels));
    }
    AddChannelSums(stream, axis.outer, axis.channels, axis.inner, dy,
                   dy_mean_.mutable_data(stream));
    AddChannelProducts(stream, axis, dy, normalized_.data(stream), dyy_mean_.mutable_data(stream));
    std::vector<double> sums;
    const double weight = static_cast<double>(axis.per_channel()) * run.replica.count /
                          static_cast<double>(elements_);
    for (Blob<T>* blob : {&dy_mean_, &dyy_mean_})
      for (T value : blob->DataToHost(stream)) sums.push_back(static_cast<double>(value) * weight);
    run.group->Sum(sums);
    auto next = sums.begin();
    for (Blob<T>* blob : {&dy_mean_, &dyy_mean_}) {
      std::vector<T> means(static_cast<size_t>(axis.channels));
      for (T& mean : means)
        mean = static_cast<T>(*next++ / static_cast<double>(elements_) / weight);
      blob->SetData(stream, means);
    }
    NormalizeBackwardBy(stream, axis, factor_.data(stream), normalized_.data(stream),
                        dy_mean_.data(stream), dyy_mean_.data(stream), dy, dx);
  }
  void UpdateRunningStatistics(Stream& stream, ChannelAxis axis) {
    const T keep = static_cast<T>(param_.moving_average_fraction());
    const T m = static_cast<T>(elements_);
    const T unbiased = m > 1 ? m / (m - 1) : T(1);
    const T factor = FactorOnHost(stream) * keep + 1;
    this->blob(kFactor).SetData(stream, std::span<const T>(&factor, 1));
    Accumulate<T>(stream, axis.channels, keep, 1, mean_.data(stream),
                  this->blob(kMean).mutable_data(stream));
    Accumulate<T>(stream, axis.channels, keep, unbiased, variance_.data(stream),
                  this->blob(kVariance).mutable_data(stream));
  }

  const BatchNormParameter param_;
  const bool scales_;  // and shifts
  bool global_;
  Format format_ = Format::kPlain;    // of the last Forward
  Followers<T> followers_;            // fused into this layer
  Blob<T> mean_, variance_, factor_;  // of the last Forward
  Blob<T> normalized_;                // its output, in plain format
  Blob<T> input_;                     // in the blocked one, where it was in place (aside_)
  bool aside_ = false;
  int64_t elements_ = 0;        // of a channel that the statistics are of
  bool joined_ = false;         // they are of all workers' rows
  Blob<T> dy_mean_, dyy_mean_;  // of BackwardOverAll
};

const RegisterLayer<BatchNorm> kRegistered{
    {.type = "BatchNorm",
     .bottoms = {1, 1},
     .tops = {1, 1},
     .summary = "Mean 0 and deviation 1 per channel, by the batch or by running statistics; "
                "optionally scaled and shifted.",
     .in_place = true}};

}  // namespace
}  // namespace carafe
