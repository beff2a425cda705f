// y = s * x (+ b), s being a learned blob or the second bottom, repeated over the axes of x that it
// does not have. May run in place: a copy of x is kept then.
//   blobs: s unless there is a second bottom, then b with bias_term
#include "carafe/kernels/activation.h"
#include "carafe/kernels/blocked_channels.h"
#include "carafe/kernels/math.h"
#include "carafe/layers/layer.h"
#include "carafe/layers/memory_format.h"
#include "carafe/layers/operand.h"

namespace carafe {
namespace {

template <typename T>
class ScaleLayer final : public Layer<T> {
 public:
  explicit ScaleLayer(const LayerSpec& spec)
      : Layer<T>(spec),
        param_(spec.param().scale_param()),
        learned_(spec.param().bottom_size() == 1) {}
  Shapes InferShapes(const Shapes& bottom) const override {
    OperandAxis(this->spec(), bottom[0], param_.axis(), OperandShape(bottom));
    return {bottom[0]};
  }
  std::vector<ParamDef> DeclareParams(const Shapes& bottom) const override {
    std::vector<ParamDef> params;
    if (learned_) {
      FillerParameter filler = param_.filler();
      if (!param_.has_filler()) filler.set_value(1);
      params.push_back({OperandShape(bottom), filler});
    }
    if (param_.bias_term()) params.push_back({OperandShape(bottom), param_.bias_filler()});
    return params;
  }
  BackwardReads ReadsInBackward() const override {
    const bool in_place = this->spec().InPlace();
    return {.bottom = !learned_ || !in_place, .top = false, .kept = in_place};
  }
  FollowerRole RoleAsFollower() const override {
    const bool by_channel = learned_ && param_.axis() == 1 && param_.num_axes() == 1;
    return by_channel ? FollowerRole::kChannelScale : FollowerRole::kNone;
  }
  FusibleFollowers CanFuse() const override { return {.relu = true}; }
  void Fuse(const Followers<T>& followers) override { relu_ = followers.relu; }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const ChannelAxis axis = AxisOf(bottom);
    const Format format = FormatFor(stream, axis, *bottom[0], *top[0]);
    const T* x = bottom[0]->data(stream, format);
    if (this->keeps_for_backward() && bottom[0]->SharesDataWith(*top[0])) {
      if (format == Format::kPlain) {
        KeepCopy(stream, *bottom[0], format, x, &input_);
      } else {
        bottom[0]->MoveDataTo(&input_);
      }
    }
    T* y = top[0]->overwrite_data(stream, format);
    if constexpr (std::is_same_v<T, float>) {
      if (format == Format::kBlocked8) {
        return BlockedScale(stream, bottom[0]->blocked_geometry(), Operand(bottom).data(stream),
                            param_.bias_term() ? Bias().data(stream) : nullptr, relu_, x, y);
      }
    }
    ScaleChannels<T>(stream, axis, Operand(bottom).data(stream), x, y);
    if (param_.bias_term()) {
      AddToChannels<T>(stream, axis.outer, axis.channels, axis.inner, Bias().data(stream), y);
    }
    if (relu_) ReluForward<T>(stream, top[0]->count(), 0, y, y);
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    Stream& stream = run.stream;
    const ChannelAxis axis = AxisOf(bottom);
    const Format format = FormatFor(stream, axis, *bottom[0], *top[0]);
    if (relu_) {
      const T* y = top[0]->data(stream, format);
      T* dy = top[0]->mutable_diff(stream, format);
      ReluBackward<T>(stream, StoredCount(*top[0], format), 0, y, dy, dy);
    }
    if constexpr (std::is_same_v<T, float>) {
      if (format == Format::kBlocked8) {
        return BlockedBackward(stream, top, propagate_down, bottom);
      }
    }
    const T* dy = top[0]->diff(stream);
    if (param_.bias_term() && this->param_propagate_down(BiasIndex())) {
      AddChannelSums(stream, axis.outer, axis.channels, axis.inner, dy,
                     Bias().mutable_diff(stream));
    }
    if (learned_ ? this->param_propagate_down(0) : propagate_down[1]) {  // before dx: it may be dy
      const Blob<T>& input = bottom[0]->SharesDataWith(*top[0]) ? input_ : *bottom[0];
      if (!learned_) bottom[1]->ZeroDiff(stream);
      AddChannelProducts<T>(stream, axis, input.data(stream), dy,
                            Operand(bottom).mutable_diff(stream));
    }
    if (propagate_down[0]) {
      ScaleChannels<T>(stream, axis, Operand(bottom).data(stream), dy,
                       bottom[0]->mutable_diff(stream));
    }
  }

 private:
  void BlockedBackward(Stream& stream, Blobs<float> top, const std::vector<bool>& propagate_down,
                       Blobs<float> bottom) {
    const BlockedGeometry g = bottom[0]->blocked_geometry();
    const float* dy = top[0]->diff(stream, Format::kBlocked8);
    float *sums = nullptr, *products = nullptr;
    if (param_.bias_term() && this->param_propagate_down(BiasIndex())) {
      sums = Bias().mutable_diff(stream);
    }
    const float* input = nullptr;
    if (learned_ ? this->param_propagate_down(0) : propagate_down[1]) {
      const bool in_place = bottom[0]->SharesDataWith(*top[0]);
      input = (in_place ? input_ : *bottom[0]).data(stream, Format::kBlocked8);
      if (!learned_) bottom[1]->ZeroDiff(stream);
      products = Operand(bottom).mutable_diff(stream);
    }
    BlockedAddSums(stream, g, dy, input, sums, products);
    input_.ReleaseData();
    if (propagate_down[0]) {
      BlockedScale(stream, g, Operand(bottom).data(stream), nullptr, /*relu=*/false, dy,
                   bottom[0]->overwrite_diff(stream, Format::kBlocked8));
    }
  }
  // Blocked where each channel has its number.
  static Format FormatFor(const Stream& stream, ChannelAxis axis, const Blob<T>& bottom,
                          const Blob<T>& top) {
    return IsChannelAxis(axis, bottom.shape()) ? CommonFormat(stream, bottom, top) : Format::kPlain;
  }
  Shape OperandShape(const Shapes& bottom) const {
    return learned_ ? LearnedOperand(this->spec(), "scale_param", bottom[0], param_.axis(),
                                     param_.num_axes())
                    : bottom[1];
  }
  ChannelAxis AxisOf(Blobs<T> bottom) {
    return OperandAxis(this->spec(), bottom[0]->shape(), param_.axis(), Operand(bottom).shape());
  }
  Blob<T>& Operand(Blobs<T> bottom) { return learned_ ? this->blob(0) : *bottom[1]; }
  int BiasIndex() const { return learned_ ? 1 : 0; }
  Blob<T>& Bias() { return this->blob(BiasIndex()); }

  const ScaleParameter param_;
  const bool learned_;
  bool relu_ = false;  // a ReLU is fused into this layer
  Blob<T> input_;      // of the last Forward, where it was in place
};

const RegisterLayer<ScaleLayer> kRegistered{
    {.type = "Scale",
     .bottoms = {1, 2},
     .tops = {1, 1},
     .summary = "Multiplies by a learned blob or a second bottom, and may add a bias.",
     .in_place = true}};

}  // namespace
}  // namespace carafe
