// y = max(0, x) + negative_slope * min(0, x). May run in place; x = 0 is on the negative side.
#include "carafe/kernels/activation.h"
#include "carafe/layers/memory_format.h"
#include "carafe/layers/neuron.h"

namespace carafe {
namespace {

template <typename T>
class Relu final : public NeuronLayer<T> {
 public:
  explicit Relu(const LayerSpec& spec)
      : NeuronLayer<T>(spec), slope_(static_cast<T>(spec.param().relu_param().negative_slope())) {}
  BackwardReads ReadsInBackward() const override { return {.bottom = true, .top = false}; }
  FollowerRole RoleAsFollower() const override {
    return slope_ == 0 ? FollowerRole::kRelu : FollowerRole::kNone;
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const Format format = CommonFormat(stream, *bottom[0], *top[0]);
    const T* x = bottom[0]->data(stream, format);
    ReluForward<T>(stream, StoredCount(*bottom[0], format), slope_, x,
                   top[0]->overwrite_data(stream, format));
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    if (!propagate_down[0]) return;
    Stream& stream = run.stream;
    const Format format = CommonFormat(stream, *bottom[0], *top[0]);
    const T* dy = top[0]->diff(stream, format);
    ReluBackward<T>(stream, StoredCount(*bottom[0], format), slope_,
                    bottom[0]->data(stream, format), dy, bottom[0]->overwrite_diff(stream, format));
  }

 private:
  const T slope_;
};

const RegisterLayer<Relu> kRegistered{{.type = "ReLU",
                                       .bottoms = {1, 1},
                                       .tops = {1, 1},
                                       .summary = "max(0, x), or a slope for x < 0.",
                                       .in_place = true}};

}  // namespace
}  // namespace carafe
