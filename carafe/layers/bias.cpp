// y = x + b, b being a learned blob or the second bottom, repeated over the axes of x that it does
// not have. May run in place.
#include "carafe/kernels/blocked_channels.h"
#include "carafe/kernels/math.h"
#include "carafe/layers/memory_format.h"
#include "carafe/layers/operand.h"

namespace carafe {
namespace {

template <typename T>
class BiasLayer final : public Layer<T> {
 public:
  explicit BiasLayer(const LayerSpec& spec)
      : Layer<T>(spec),
        param_(spec.param().bias_param()),
        learned_(spec.param().bottom_size() == 1) {}
  Shapes InferShapes(const Shapes& bottom) const override {
    OperandAxis(this->spec(), bottom[0], param_.axis(), OperandShape(bottom));
    return {bottom[0]};
  }
  std::vector<ParamDef> DeclareParams(const Shapes& bottom) const override {
    if (!learned_) return {};
    return {{OperandShape(bottom), param_.filler()}};
  }
  BackwardReads ReadsInBackward() const override { return {.bottom = false, .top = false}; }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const ChannelAxis axis = AxisOf(bottom);
    const Format format = FormatFor(stream, axis, *bottom[0], *top[0]);
    const T* x = bottom[0]->data(stream, format);
    T* y = top[0]->overwrite_data(stream, format);
    if constexpr (std::is_same_v<T, float>) {
      if (format == Format::kBlocked8) {
        return BlockedScale(stream, bottom[0]->blocked_geometry(), nullptr,
                            Operand(bottom).data(stream), /*relu=*/false, x, y);
      }
    }
    stream.Copy(y, x, static_cast<size_t>(top[0]->count()));
    AddToChannels<T>(stream, axis.outer, axis.channels, axis.inner, Operand(bottom).data(stream),
                     y);
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    Stream& stream = run.stream;
    const ChannelAxis axis = AxisOf(bottom);
    const Format format = FormatFor(stream, axis, *bottom[0], *top[0]);
    const T* dy = top[0]->diff(stream, format);
    if (learned_ ? this->param_propagate_down(0) : propagate_down[1]) {
      if (!learned_) bottom[1]->ZeroDiff(stream);
      AddSums(stream, axis, format, *bottom[0], dy, Operand(bottom).mutable_diff(stream));
    }
    if (propagate_down[0]) {
      stream.Copy(bottom[0]->overwrite_diff(stream, format), dy,
                  static_cast<size_t>(StoredCount(*bottom[0], format)));
    }
  }

 private:
  static void AddSums(Stream& stream, ChannelAxis axis, Format format, const Blob<T>& bottom,
                      const T* dy, T* sums) {
    if constexpr (std::is_same_v<T, float>) {
      if (format == Format::kBlocked8) {
        return BlockedAddSums(stream, bottom.blocked_geometry(), dy, nullptr, sums, nullptr);
      }
    }
    AddChannelSums(stream, axis.outer, axis.channels, axis.inner, dy, sums);
  }
  // Blocked where each channel has its number.
  static Format FormatFor(const Stream& stream, ChannelAxis axis, const Blob<T>& bottom,
                          const Blob<T>& top) {
    return IsChannelAxis(axis, bottom.shape()) ? CommonFormat(stream, bottom, top) : Format::kPlain;
  }
  Shape OperandShape(const Shapes& bottom) const {
    return learned_ ? LearnedOperand(this->spec(), "bias_param", bottom[0], param_.axis(),
                                     param_.num_axes())
                    : bottom[1];
  }
  ChannelAxis AxisOf(Blobs<T> bottom) {
    return OperandAxis(this->spec(), bottom[0]->shape(), param_.axis(), Operand(bottom).shape());
  }
  Blob<T>& Operand(Blobs<T> bottom) { return learned_ ? this->blob(0) : *bottom[1]; }

  const BiasParameter param_;
  const bool learned_;
};

const RegisterLayer<BiasLayer> kRegistered{{.type = "Bias",
                                            .bottoms = {1, 2},
                                            .tops = {1, 1},
                                            .summary = "Adds a learned blob or a second bottom.",
                                            .in_place = true}};

}  // namespace
}  // namespace carafe
