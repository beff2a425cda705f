// y = exp(x) / sum of exp(x) along `axis`, for every position of the other axes. May run in place.
#include "carafe/kernels/softmax.h"

#include "carafe/layers/layer.h"

namespace carafe {
namespace {

template <typename T>
class Softmax final : public Layer<T> {
 public:
  explicit Softmax(const LayerSpec& spec)
      : Layer<T>(spec), axis_(spec.param().softmax_param().axis()) {}
  Shapes InferShapes(const Shapes& bottom) const override {
    bottom[0].CanonicalAxis(axis_);
    return {bottom[0]};
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    SoftmaxForward(run.stream, Classes(bottom[0]->shape()), bottom[0]->data(run.stream),
                   top[0]->mutable_data(run.stream));
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    if (!propagate_down[0]) return;
    SoftmaxBackward(run.stream, Classes(top[0]->shape()), top[0]->data(run.stream),
                    top[0]->diff(run.stream), bottom[0]->mutable_diff(run.stream));
  }

 private:
  ClassAxis Classes(const Shape& x) const {
    const int a = x.CanonicalAxis(axis_);
    return {x.Count(0, a), x[a], x.Count(a + 1)};
  }
  const int axis_;
};

const RegisterLayer<Softmax> kRegistered{{.type = "Softmax",
                                          .bottoms = {1, 1},
                                          .tops = {1, 1},
                                          .summary = "Scores to probabilities along an axis.",
                                          .in_place = true}};

}  // namespace
}  // namespace carafe
