// Base of the neuron layers that are one of the functions of kernels/elementwise.h. All of them may
// run in place: where the derivative needs the input, a copy of it is kept.
#pragma once

#include "carafe/kernels/elementwise.h"
#include "carafe/layers/memory_format.h"
#include "carafe/layers/neuron.h"

namespace carafe {

template <typename T>
class FunctionLayer : public NeuronLayer<T> {
 public:
  FunctionLayer(const LayerSpec& spec, const FunctionOf<T>& function)
      : NeuronLayer<T>(spec), function_(function) {}

  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const Format format = CommonFormat(stream, *bottom[0], *top[0]);
    const T* x = bottom[0]->data(stream, format);
    if (KeepsInput(bottom, top)) KeepCopy(stream, *bottom[0], format, x, &input_);
    T* y = top[0]->overwrite_data(stream, format);
    ApplyFunction(stream, function_, StoredCount(*bottom[0], format), x, y);
    RestorePadding(stream, *top[0], format, y);
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    if (!propagate_down[0]) return;
    Stream& stream = run.stream;
    const Blob<T>& input = KeepsInput(bottom, top) ? input_ : *bottom[0];
    const Format format = CommonFormat(stream, *bottom[0], *top[0]);
    const T* dy = top[0]->diff(stream, format);
    T* dx = bottom[0]->overwrite_diff(stream, format);
    ApplyDerivative(stream, function_, StoredCount(*bottom[0], format), input.data(stream, format),
                    top[0]->data(stream, format), dy, dx);
    RestorePadding(stream, *bottom[0], format, dx);
  }

 private:
  bool KeepsInput(Blobs<T> bottom, Blobs<T> top) const {
    return bottom[0]->SharesDataWith(*top[0]) && DerivativeReadsInput(function_);
  }
  const FunctionOf<T> function_;
  Blob<T> input_;
};

}  // namespace carafe
