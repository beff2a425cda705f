// One step of an LSTM, its sums of i, f, o, g given:
//   c = cont s(f) c_prev + s(i) tanh(g),   h = s(o) tanh(c),   s being the sigmoid
//   bottoms: c_prev (1, N, D), sums (1, N, 4 D), cont (1, N);   tops: c, h (1, N, D)
#include <fmt/format.h>

#include "carafe/kernels/recurrent.h"
#include "carafe/layers/layer.h"

namespace carafe {
namespace {

template <typename T>
class LstmUnit final : public Layer<T> {
 public:
  using Layer<T>::Layer;
  Shapes InferShapes(const Shapes& bottom) const override {
    const Shape& c = bottom[0];
    const bool fits = c.rank() == 3 && c[0] == 1 && bottom[1] == Shape({1, c[1], 4 * c[2]}) &&
                      bottom[2] == Shape({1, c[1]});
    this->spec().Check(fits, "bottom",
                       fmt::format("the bottoms must be (1, N, D), (1, N, 4 D) and (1, N), not {}, "
                                   "{} and {}",
                                   c.ToString(), bottom[1].ToString(), bottom[2].ToString()),
                       "give the cells, the sums of their four gates, and cont");
    return {c, c};
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const Shape& shape = bottom[0]->shape();
    gates_.Reshape(bottom[1]->shape());
    T* gates = gates_.mutable_data(stream);
    stream.Copy(gates, bottom[1]->data(stream), static_cast<size_t>(gates_.count()));
    LstmForward<T>(stream, shape[1], shape[2], bottom[0]->data(stream), bottom[2]->data(stream),
                   gates, top[0]->mutable_data(stream), top[1]->mutable_data(stream));
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    this->spec().Check(!propagate_down[2], "propagate_down", "cont has no gradient",
                       "take it from a layer without parameters");
    if (!propagate_down[0] && !propagate_down[1]) return;
    Stream& stream = run.stream;
    const Shape& shape = bottom[0]->shape();
    LstmBackward<T>(stream, shape[1], shape[2], bottom[0]->data(stream), gates_.data(stream),
                    top[0]->data(stream), top[1]->diff(stream), top[0]->diff(stream),
                    bottom[0]->mutable_diff(stream), bottom[1]->mutable_diff(stream));
  }
  bool AllowForceBackward(int bottom) const override { return bottom != 2; }

 private:
  Blob<T> gates_;  // activations of the last Forward
};

const RegisterLayer<LstmUnit> kRegistered{{.type = "LSTMUnit",
                                           .bottoms = {3, 3},
                                           .tops = {2, 2},
                                           .summary = "One step of an LSTM, its sums given."}};

}  // namespace
}  // namespace carafe
