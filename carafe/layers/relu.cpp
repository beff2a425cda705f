// y = max(0, x) + negative_slope * min(0, x). May run in place; x = 0 is on the negative side.
#include "carafe/kernels/activation.h"
#include "carafe/layers/neuron.h"

namespace carafe {
namespace {

template <typename T>
class Relu final : public NeuronLayer<T> {
 public:
  explicit Relu(const LayerSpec& spec)
      : NeuronLayer<T>(spec), slope_(static_cast<T>(spec.param().relu_param().negative_slope())) {}
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    ReluForward<T>(run.stream, bottom[0]->count(), slope_, bottom[0]->data(run.stream),
                   top[0]->mutable_data(run.stream));
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    if (!propagate_down[0]) return;
    ReluBackward<T>(run.stream, bottom[0]->count(), slope_, bottom[0]->data(run.stream),
                    top[0]->diff(run.stream), bottom[0]->mutable_diff(run.stream));
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
