// The positions (or values) of the top_k largest elements, of equals the larger index first.
//   without axis: of each row (N, ..)  ->  (N, 1, top_k), or (N, 2, top_k) with out_max_val: the
//     positions, then the values; with trailing axes of 1 up to the bottom's number of axes
//   with axis: that axis becomes top_k long and holds positions, or with out_max_val values
// It has no gradient.
#include <fmt/format.h>

#include "carafe/kernels/blocks.h"
#include "carafe/kernels/reduce.h"
#include "carafe/layers/layer.h"

namespace carafe {
namespace {

template <typename T>
class ArgMax final : public Layer<T> {
 public:
  explicit ArgMax(const LayerSpec& spec) : Layer<T>(spec), param_(spec.param().argmax_param()) {
    spec.Check(param_.top_k() > 0, "argmax_param.top_k", "top_k is 0", "use 1 or more");
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    const Shape& x = bottom[0];
    const ClassAxis axis = AxisOf(x);
    const int64_t k = param_.top_k();
    this->spec().Check(
        k <= axis.classes, "argmax_param.top_k",
        fmt::format("top_k is {}, but there are {} elements to choose from", k, axis.classes),
        "use a smaller top_k");
    if (param_.has_axis()) return {x.With(param_.axis(), k)};
    Shape top{x.LegacyDim(0), param_.out_max_val() ? 2 : 1, k};
    while (top.rank() < x.rank()) top = top.Append(1);
    return {top};
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const ClassAxis axis = AxisOf(bottom[0]->shape());
    const int64_t k = param_.top_k();
    const T* x = bottom[0]->data(stream);
    T* y = top[0]->mutable_data(stream);
    if (!param_.out_max_val()) return Largest<T>(stream, axis, k, x, y, nullptr);
    if (param_.has_axis()) return Largest<T>(stream, axis, k, x, nullptr, y);
    for (Blob<T>* blob : {&indices_, &values_}) blob->Reshape({axis.outer, k});
    Largest(stream, axis, k, x, indices_.mutable_data(stream), values_.mutable_data(stream));
    CopyBlock<T>(stream, axis.outer, k, indices_.data(stream), k, y, 2 * k);
    CopyBlock<T>(stream, axis.outer, k, values_.data(stream), k, y + k, 2 * k);
  }
  void Backward(RunContext&, Blobs<T>, const std::vector<bool>& propagate_down, Blobs<T>) override {
    this->spec().Check(!propagate_down[0], "", "ArgMax has no gradient",
                       "keep it out of the path from the loss to the parameters");
  }

 private:
  ClassAxis AxisOf(const Shape& x) const {
    if (!param_.has_axis()) {
      const int64_t rows = x.LegacyDim(0);
      return {rows, rows > 0 ? x.Count() / rows : 0, 1};
    }
    const int a = x.CanonicalAxis(param_.axis());
    return {x.Count(0, a), x[a], x.Count(a + 1)};
  }
  const ArgMaxParameter param_;
  Blob<T> indices_, values_;
};

const RegisterLayer<ArgMax> kRegistered{
    {.type = "ArgMax",
     .bottoms = {1, 1},
     .tops = {1, 1},
     .summary = "Positions or values of the largest elements."}};

}  // namespace
}  // namespace carafe
