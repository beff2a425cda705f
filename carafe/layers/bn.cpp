// The BN layers of SegNet and PSPNet, which share a name: y = scale_c n + shift_c per channel.
//   SegNet (and ENet): blobs scale, shift, both (1, C, 1, 1). bn_mode LEARN: n = (x - mean) /
//   sqrt(variance + 1e-9) by the statistics of the batch, in TRAIN and TEST; INFERENCE: n = x, for
//   its tools fold the statistics of all data into scale and shift.
//   PSPNet: blobs slope, bias, mean, variance, all (1, C, 1, 1). TRAIN: by the batch, and
//   mean = momentum mean + (1 - momentum) batch mean, likewise the unbiased variance; TEST, and
//   with frozen always: by blobs 2 and 3. variance + eps.
// slope_filler, bias_filler, momentum, eps and frozen are PSPNet's, the others SegNet's.
#include <fmt/format.h>

#include "carafe/kernels/channels.h"
#include "carafe/kernels/math.h"
#include "carafe/layers/layer.h"
#include "carafe/proto/fork_messages.h"

namespace carafe {
namespace {

template <typename T>
class Bn final : public Layer<T> {
 public:
  explicit Bn(const LayerSpec& spec)
      : Layer<T>(spec), param_(ForkPart<ForkLayerParameter>(spec.param()).bn_param()) {
    const bool pspnet = param_.has_slope_filler() || param_.has_bias_filler() ||
                        param_.has_momentum() || param_.has_eps() || param_.has_frozen();
    const bool segnet =
        param_.has_scale_filler() || param_.has_shift_filler() || param_.has_bn_mode();
    spec.Check(!(pspnet && segnet), "bn_param", "settings of SegNet's and of PSPNet's BN are mixed",
               "scale_filler, shift_filler and bn_mode are SegNet's, the others PSPNet's");
    running_ = pspnet;
    plain_ = param_.bn_mode() == BNParameter::INFERENCE;
    global_ = running_ && (param_.frozen() || spec.phase() == TEST);
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    this->spec().Check(bottom[0].rank() >= 2, "bottom",
                       fmt::format("BN needs a bottom of 2 axes or more (N, C, ..), this one is {}",
                                   bottom[0].ToString()),
                       "reshape the bottom");
    return {bottom[0]};
  }
  std::vector<ParamDef> DeclareParams(const Shapes& bottom) const override {
    const Shape channels{1, bottom[0][1], 1, 1};
    FillerParameter scale = running_ ? param_.slope_filler() : param_.scale_filler();
    if (!param_.has_slope_filler() && !param_.has_scale_filler()) scale.set_value(1);
    std::vector<ParamDef> params = {
        {.shape = channels, .filler = scale},
        {.shape = channels, .filler = running_ ? param_.bias_filler() : param_.shift_filler()}};
    if (!running_) return params;
    FillerParameter one;
    one.set_value(1);
    params.push_back({.shape = channels, .learned = false});
    params.push_back({.shape = channels, .filler = one, .learned = false});
    return params;
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const ChannelAxis axis = AxisOf(bottom[0]->shape());
    const T* x = bottom[0]->data(stream);
    T* y = top[0]->mutable_data(stream);
    normalized_.Reshape(bottom[0]->shape());
    T* n = normalized_.mutable_data(stream);
    if (plain_) {
      stream.Copy(n, x, static_cast<size_t>(axis.count()));
    } else {
      Normalize(stream, axis, x, n);
    }
    ScaleChannels<T>(stream, axis, this->blob(kScale).data(stream), n, y);
    AddToChannels(stream, axis.outer, axis.channels, axis.inner, this->blob(kShift).data(stream),
                  y);
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    Stream& stream = run.stream;
    const ChannelAxis axis = AxisOf(bottom[0]->shape());
    const T* dy = top[0]->diff(stream);
    if (this->param_propagate_down(kScale)) {
      AddChannelProducts<T>(stream, axis, dy, normalized_.data(stream),
                            this->blob(kScale).mutable_diff(stream));
    }
    if (this->param_propagate_down(kShift)) {
      AddChannelSums(stream, axis.outer, axis.channels, axis.inner, dy,
                     this->blob(kShift).mutable_diff(stream));
    }
    if (!propagate_down[0]) return;
    T* dx = bottom[0]->mutable_diff(stream);
    ScaleChannels<T>(stream, axis, this->blob(kScale).data(stream), dy, dx);
    if (plain_) return;
    if (global_) {
      ScaleChannels<T>(stream, axis, factor_.data(stream), dx, dx);
    } else {
      NormalizeBackward<T>(stream, axis, factor_.data(stream), normalized_.data(stream), dx, dx);
    }
  }
  BackwardReads ReadsInBackward() const override { return {.bottom = false, .top = false}; }

 private:
  enum { kScale, kShift, kMean, kVariance };
  static ChannelAxis AxisOf(const Shape& x) { return {x[0], x[1], x.Count(2)}; }
  void Normalize(Stream& stream, ChannelAxis axis, const T* x, T* n) {
    for (Blob<T>* blob : {&mean_, &variance_, &factor_}) blob->Reshape({axis.channels});
    const T *mean = mean_.data(stream), *variance = variance_.data(stream);
    if (global_) {
      mean = this->blob(kMean).data(stream);
      variance = this->blob(kVariance).data(stream);
    } else {
      ChannelStatistics(stream, axis, x, mean_.mutable_data(stream),
                        variance_.mutable_data(stream));
    }
    const T eps = running_ ? static_cast<T>(param_.eps()) : static_cast<T>(1e-9);
    InverseDeviation<T>(stream, axis.channels, eps, variance, factor_.mutable_data(stream));
    NormalizeChannels<T>(stream, axis, mean, factor_.data(stream), x, n);
    if (!running_ || global_) return;
    const T keep = static_cast<T>(param_.momentum()), m = static_cast<T>(axis.per_channel());
    const T unbiased = m > 1 ? m / (m - 1) : T(1);
    Accumulate<T>(stream, axis.channels, keep, 1 - keep, mean,
                  this->blob(kMean).mutable_data(stream));
    Accumulate<T>(stream, axis.channels, keep, (1 - keep) * unbiased, variance,
                  this->blob(kVariance).mutable_data(stream));
  }
  const BNParameter param_;
  bool running_, plain_, global_;     // PSPNet's; n = x; by the running statistics
  Blob<T> mean_, variance_, factor_;  // of the batch; 1 / deviation
  Blob<T> normalized_;                // n of the last Forward
};

const RegisterLayer<Bn> kRegistered{
    {.type = "BN",
     .bottoms = {1, 1},
     .tops = {1, 1},
     .summary = "Normalises, scales and shifts each channel (SegNet's BN, or PSPNet's).",
     .in_place = true}};

}  // namespace
}  // namespace carafe
