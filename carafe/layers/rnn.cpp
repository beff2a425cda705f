// The simple recurrent net:
//   h = tanh(W_x x + b (+ W_static x_static) + W_h cont h'),   y = tanh(W_y h + b_y)
#include "carafe/kernels/elementwise.h"
#include "carafe/kernels/gemm.h"
#include "carafe/kernels/math.h"
#include "carafe/layers/recurrent.h"

namespace carafe {
namespace {

template <typename T>
class Rnn final : public RecurrentLayer<T> {
 public:
  explicit Rnn(const LayerSpec& spec) : RecurrentLayer<T>(spec, /*gates=*/1, /*states=*/1) {}

 private:
  using Dims = typename RecurrentLayer<T>::Dims;
  static constexpr FunctionOf<T> kTanh{Function::kTanh};
  std::vector<ParamDef> CellParams() const override {
    const int64_t units = this->param().num_output();
    return {{{units, units}, this->param().weight_filler()},
            {{units}, this->param().bias_filler()}};
  }
  void Step(Stream& stream, const Dims& d, int64_t t, const T*, T* gates) override {
    ApplyFunction<T>(stream, kTanh, d.state(), gates, this->state(stream, d, 0, t + 1));
  }
  void StepBackward(Stream& stream, const Dims& d, int64_t t, const T* gates, const T* dh,
                    T* dgates) override {
    ApplyDerivative<T>(stream, kTanh, d.state(), gates, this->state(stream, d, 0, t + 1), dh,
                       dgates);
  }
  void Output(Stream& stream, const Dims& d, const T* h, T* y) override {
    const int64_t rows = d.steps * d.sequences;
    Gemm<T>(stream, Op::kNone, Op::kTrans, rows, d.units, d.units, 1, h, Weights().data(stream), 0,
            y);
    AddToRows<T>(stream, rows, d.units, Bias().data(stream), y);
    ApplyFunction<T>(stream, kTanh, rows * d.units, y, y);
  }
  void OutputBackward(Stream& stream, const Dims& d, const T* h, const T* y, const T* dy,
                      T* dh) override {
    const int64_t rows = d.steps * d.sequences;
    sums_.Reshape({rows, d.units});
    T* dsum = sums_.mutable_diff(stream);
    ApplyDerivative<T>(stream, kTanh, rows * d.units, y, y, dy, dsum);
    if (this->param_propagate_down(this->cell_blob(0))) {
      Gemm<T>(stream, Op::kTrans, Op::kNone, d.units, d.units, rows, 1, dsum, h, 1,
              Weights().mutable_diff(stream));
    }
    if (this->param_propagate_down(this->cell_blob(1))) {
      AddColumnSums<T>(stream, rows, d.units, dsum, Bias().mutable_diff(stream));
    }
    Gemm<T>(stream, Op::kNone, Op::kNone, rows, d.units, d.units, 1, dsum, Weights().data(stream),
            0, dh);
  }
  Blob<T>& Weights() { return this->blob(this->cell_blob(0)); }
  Blob<T>& Bias() { return this->blob(this->cell_blob(1)); }
  Blob<T> sums_;  // of the output; only the gradient is used
};

const RegisterLayer<Rnn> kRegistered{{.type = "RNN",
                                      .bottoms = {2, 4},
                                      .tops = {1, 2},
                                      .summary = "Simple recurrent net over sequences."}};

}  // namespace
}  // namespace carafe
