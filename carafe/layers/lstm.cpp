// Long short-term memory. With the sums of i, f, o, g = W_x x + b (+ W_static x_static) + W_h cont
// h':
//   c = cont s(f) c' + s(i) tanh(g),   y = h = s(o) tanh(c),   s being the sigmoid
#include "carafe/kernels/recurrent.h"
#include "carafe/layers/recurrent.h"

namespace carafe {
namespace {

template <typename T>
class Lstm final : public RecurrentLayer<T> {
 public:
  explicit Lstm(const LayerSpec& spec) : RecurrentLayer<T>(spec, /*gates=*/4, /*states=*/2) {}

 private:
  using Dims = typename RecurrentLayer<T>::Dims;
  enum { kHidden, kCell };
  void Step(Stream& stream, const Dims& d, int64_t t, const T* cont, T* gates) override {
    LstmForward<T>(stream, d.sequences, d.units, this->state(stream, d, kCell, t), cont, gates,
                   this->state(stream, d, kCell, t + 1), this->state(stream, d, kHidden, t + 1));
  }
  void BeginBackward(Stream& stream, const Dims& d) override {
    cell_gradient_.Reshape({d.sequences, d.units});
    stream.Zero(cell_gradient_.mutable_data(stream), static_cast<size_t>(d.state()));
  }
  void StepBackward(Stream& stream, const Dims& d, int64_t t, const T* gates, const T* dh,
                    T* dgates) override {
    T* dc = cell_gradient_.mutable_data(stream);
    LstmBackward<T>(stream, d.sequences, d.units, this->state(stream, d, kCell, t), gates,
                    this->state(stream, d, kCell, t + 1), dh, dc, dc, dgates);
  }
  void Output(Stream& stream, const Dims& d, const T* h, T* y) override {
    stream.Copy(y, h, static_cast<size_t>(d.steps * d.state()));
  }
  void OutputBackward(Stream& stream, const Dims& d, const T*, const T*, const T* dy,
                      T* dh) override {
    stream.Copy(dh, dy, static_cast<size_t>(d.steps * d.state()));
  }
  Blob<T> cell_gradient_;  // of c between two steps
};

const RegisterLayer<Lstm> kRegistered{{.type = "LSTM",
                                       .bottoms = {2, 5},
                                       .tops = {1, 3},
                                       .summary = "Long short-term memory over sequences."}};

}  // namespace
}  // namespace carafe
