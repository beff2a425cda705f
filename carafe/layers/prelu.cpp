// y = max(0, x) + a_c min(0, x), with a learned slope per channel (axis 1), or one for all. May run
// in place: a copy of x is kept then.
#include <fmt/format.h>

#include "carafe/kernels/activation.h"
#include "carafe/kernels/blocked_channels.h"
#include "carafe/layers/layer.h"
#include "carafe/layers/memory_format.h"

namespace carafe {
namespace {

template <typename T>
class PRelu final : public Layer<T> {
 public:
  explicit PRelu(const LayerSpec& spec)
      : Layer<T>(spec), shared_(spec.param().prelu_param().channel_shared()) {}
  Shapes InferShapes(const Shapes& bottom) const override {
    this->spec().Check(bottom[0].rank() >= 2, "bottom",
                       fmt::format("PReLU needs a bottom of 2 axes or more (N, C, ..), this one is "
                                   "{}",
                                   bottom[0].ToString()),
                       "reshape the bottom");
    return {bottom[0]};
  }
  std::vector<ParamDef> DeclareParams(const Shapes& bottom) const override {
    FillerParameter filler = this->spec().param().prelu_param().filler();
    if (!this->spec().param().prelu_param().has_filler()) filler.set_value(0.25f);
    return {{shared_ ? Shape{} : Shape{bottom[0][1]}, filler}};
  }
  BackwardReads ReadsInBackward() const override {
    return {.bottom = !this->spec().InPlace(), .top = false};  // in place a copy is kept
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const Dims d = DimsOf(bottom[0]->shape());
    const Format format = FormatFor(stream, *bottom[0], *top[0]);
    const T* x = bottom[0]->data(stream, format);
    if (bottom[0]->SharesDataWith(*top[0])) KeepCopy(stream, *bottom[0], format, x, &input_);
    const T* slopes = this->blob(0).data(stream);
    T* y = top[0]->overwrite_data(stream, format);
    if constexpr (std::is_same_v<T, float>) {
      if (format == Format::kBlocked8) {
        return BlockedPRelu(stream, bottom[0]->blocked_geometry(), slopes, x, x, y);
      }
    }
    PReluForward(stream, d.outer, d.channels, d.inner, slopes, x, y);
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    Stream& stream = run.stream;
    const Dims d = DimsOf(bottom[0]->shape());
    const Blob<T>& input = bottom[0]->SharesDataWith(*top[0]) ? input_ : *bottom[0];
    const Format format = FormatFor(stream, *bottom[0], *top[0]);
    const T* x = input.data(stream, format);
    const T* dy = top[0]->diff(stream, format);
    if constexpr (std::is_same_v<T, float>) {
      if (format == Format::kBlocked8) {
        const BlockedGeometry g = bottom[0]->blocked_geometry();
        if (this->param_propagate_down(0)) {
          BlockedAddPReluSlopes(stream, g, x, dy, this->blob(0).mutable_diff(stream));
        }
        if (propagate_down[0]) {
          BlockedPRelu(stream, g, this->blob(0).data(stream), x, dy,
                       bottom[0]->overwrite_diff(stream, format));
        }
        return;
      }
    }
    if (this->param_propagate_down(0)) {  // before dx, which may be dy
      PReluAddSlopeGradient(stream, d.outer, d.channels, d.inner, x, dy,
                            this->blob(0).mutable_diff(stream));
    }
    if (propagate_down[0]) {
      PReluBackward(stream, d.outer, d.channels, d.inner, this->blob(0).data(stream), x, dy,
                    bottom[0]->overwrite_diff(stream));
    }
  }

 private:
  struct Dims {
    int64_t outer, channels, inner;
  };
  Dims DimsOf(const Shape& x) const {  // one slope: all of x is one channel
    return shared_ ? Dims{1, 1, x.Count()} : Dims{x[0], x[1], x.Count(2)};
  }
  Format FormatFor(const Stream& stream, const Blob<T>& bottom, const Blob<T>& top) const {
    return shared_ ? Format::kPlain : CommonFormat(stream, bottom, top);
  }
  const bool shared_;
  Blob<T> input_;
};

const RegisterLayer<PRelu> kRegistered{{.type = "PReLU",
                                        .bottoms = {1, 1},
                                        .tops = {1, 1},
                                        .summary = "ReLU with learned slopes for x < 0.",
                                        .in_place = true}};

}  // namespace
}  // namespace carafe
