// Base of the neuron layers that are one of the functions of kernels/elementwise.h. All of them may
// run in place: where the derivative needs the input, a copy of it is kept.
#pragma once

#include "carafe/kernels/elementwise.h"
#include "carafe/layers/neuron.h"

namespace carafe {

template <typename T>
class FunctionLayer : public NeuronLayer<T> {
 public:
  FunctionLayer(const LayerSpec& spec, const FunctionOf<T>& function)
      : NeuronLayer<T>(spec), function_(function) {}

  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const T* x = bottom[0]->data(stream);
    if (KeepsInput(bottom, top)) {
      input_.Reshape(bottom[0]->shape());
      stream.Copy(input_.mutable_data(stream), x, static_cast<size_t>(input_.count()));
    }
    ApplyFunction(stream, function_, bottom[0]->count(), x, top[0]->mutable_data(stream));
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    if (!propagate_down[0]) return;
    Stream& stream = run.stream;
    const Blob<T>& input = KeepsInput(bottom, top) ? input_ : *bottom[0];
    ApplyDerivative(stream, function_, bottom[0]->count(), input.data(stream), top[0]->data(stream),
                    top[0]->diff(stream), bottom[0]->mutable_diff(stream));
  }

 private:
  bool KeepsInput(Blobs<T> bottom, Blobs<T> top) const {
    return bottom[0]->SharesDataWith(*top[0]) && DerivativeReadsInput(function_);
  }
  const FunctionOf<T> function_;
  Blob<T> input_;
};

}  // namespace carafe
