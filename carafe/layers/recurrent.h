// What RNN and LSTM share: the way through time. The cell itself and the output are theirs.
#pragma once

#include "carafe/layers/layer.h"

namespace carafe {

// One number per sequence n of N and step t of T says whether its history counts (cont): the hidden
// state h' = cont h is what the step sees.
//   bottoms: x (T, N, ..), cont (T, N), optionally x_static (N, ..); with expose_hidden the initial
//            states (1, N, D) follow
//   tops:    y (T, N, D); with expose_hidden the final states follow
//   blobs:   W_x (G, X), b (G), W_static (G, S) if there is x_static, W_h (G, D), then those of the
//            cell; G = gates * D, D = num_output
// Without expose_hidden the states go on from one Forward to the next. No gradient crosses
// Forwards, and none reaches or comes from exposed states, as in Caffe.
template <typename T>
class RecurrentLayer : public Layer<T> {
 public:
  // A cell with `gates` sums per unit that carries `states` states: h, and c in an LSTM.
  RecurrentLayer(const LayerSpec& spec, int gates, int states);
  Shapes InferShapes(const Shapes& bottom) const final;
  std::vector<ParamDef> DeclareParams(const Shapes& bottom) const final;
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) final;
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) final;
  bool AllowForceBackward(int bottom) const final { return bottom != 1; }
  bool TakesSequences() const final { return true; }
  int64_t MultiplyAdds(const Shapes& bottom) const final;
  bool RewindForward(Stream& stream, int passes) final;

 protected:
  // Sizes of this pass: steps, sequences, width of an input and of a static input, D and G.
  struct Dims {
    int64_t steps, sequences, input, fixed, units, gates;
    int64_t state() const { return sequences * units; }
  };
  virtual std::vector<ParamDef> CellParams() const { return {}; }
  // Step t: the sums `gates` (which it may turn into activations) and the states before it give
  // those after it: state(s, t + 1) from state(s, t).
  virtual void Step(Stream& stream, const Dims& d, int64_t t, const T* cont, T* gates) = 0;
  // dh is the gradient of the state after the step; gives that of the sums.
  virtual void StepBackward(Stream& stream, const Dims& d, int64_t t, const T* gates, const T* dh,
                            T* dgates) = 0;
  virtual void BeginBackward(Stream& /*stream*/, const Dims& /*d*/) {}
  // y (T, N, D) from all hidden states h (T, N, D), and dh from dy.
  virtual void Output(Stream& stream, const Dims& d, const T* h, T* y) = 0;
  virtual void OutputBackward(Stream& stream, const Dims& d, const T* h, const T* y, const T* dy,
                              T* dh) = 0;

  // State s before step t (after the last one for t = T): (N, D).
  T* state(Stream& stream, const Dims& d, int s, int64_t t) {
    return states_[static_cast<size_t>(s)].mutable_data(stream) + t * d.state();
  }
  const RecurrentParameter& param() const { return param_; }
  int cell_blob(int i) const { return (has_static_ ? 4 : 3) + i; }  // the cell's own parameters

 private:
  enum { kX, kCont, kStatic };
  Dims DimsOf(const Shapes& bottom) const;
  const Dims& DimsOf(Blobs<T> bottom);  // checks them only where they have changed
  int hidden_blob() const { return has_static_ ? 3 : 2; }
  size_t first_state() const { return has_static_ ? 3 : 2; }  // among the bottoms
  void PrepareStates(Stream& stream, const Dims& d, Blobs<T> bottom);
  void WeightGradients(Stream& stream, const Dims& d, Blobs<T> bottom);

  const RecurrentParameter param_;
  Shapes known_;  // the bottoms of dims_
  Dims dims_ = {};
  const int gates_per_unit_;
  const bool has_static_;
  std::vector<Blob<T>> states_;  // (T + 1, N, D) each: before the first step, and after every step
  Blob<T> gates_;                // (T, N, G): activations, and in diff the gradients of the sums
  Blob<T> hidden_in_;            // (T, N, D): cont h, what each step saw
  Blob<T> hidden_gradient_;      // (T, N, D): what comes from the output
  Blob<T> step_gradient_;        // (N, D): of the state between two steps
  Blob<T> fixed_;                // (N, G): the share of x_static, and in diff its gradient
  Blob<T> packed_;               // the right-hand matrix of the product at hand
};

}  // namespace carafe
