// Puts the bottoms one after the other along `axis` (or the old `concat_dim`). A single bottom is
// handed through: its top shares its memory.
#include <fmt/format.h>

#include "carafe/kernels/blocks.h"
#include "carafe/layers/layer.h"

namespace carafe {
namespace {

template <typename T>
class Concat final : public Layer<T> {
 public:
  explicit Concat(const LayerSpec& spec) : Layer<T>(spec), param_(spec.param().concat_param()) {
    spec.Check(!param_.has_axis() || !param_.has_concat_dim(), "concat_param.concat_dim",
               "axis and concat_dim are both given", "keep axis");
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    const int axis = Axis(bottom[0]);
    int64_t size = 0;
    for (const Shape& shape : bottom) {
      this->spec().Check(
          shape.rank() == bottom[0].rank() && shape.With(axis, bottom[0][axis]) == bottom[0],
          "bottom",
          fmt::format("the bottoms differ in more than axis {}: {} and {}", axis,
                      bottom[0].ToString(), shape.ToString()),
          "make all other axes equal");
      size += shape[axis];
    }
    return {bottom[0].With(axis, size)};
  }
  void Reshape(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Layer<T>::Reshape(run, bottom, top);
    if (bottom.size() > 1) return;
    top[0]->ShareData(*bottom[0]);
    top[0]->ShareDiff(*bottom[0]);
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    if (bottom.size() == 1) return;
    T* y = top[0]->mutable_data(run.stream);
    ForEach(bottom, top, [&](size_t i, int64_t rows, int64_t width, int64_t step, int64_t offset) {
      CopyBlock(run.stream, rows, width, bottom[i]->data(run.stream), width, y + offset, step);
    });
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    if (bottom.size() == 1) return;
    const T* dy = top[0]->diff(run.stream);
    ForEach(bottom, top, [&](size_t i, int64_t rows, int64_t width, int64_t step, int64_t offset) {
      if (!propagate_down[i]) return;
      CopyBlock(run.stream, rows, width, dy + offset, step, bottom[i]->mutable_diff(run.stream),
                width);
    });
  }

 private:
  int Axis(const Shape& x) const {
    return x.CanonicalAxis(param_.has_concat_dim() ? static_cast<int>(param_.concat_dim())
                                                   : param_.axis());
  }
  // Calls visit(bottom, rows, width, step of the top's rows, offset in it) for each bottom's block.
  template <typename Visit>
  void ForEach(Blobs<T> bottom, Blobs<T> top, const Visit& visit) const {
    const int axis = Axis(bottom[0]->shape());
    const int64_t rows = bottom[0]->shape().Count(0, axis);
    const int64_t step = top[0]->shape().Count(axis);
    int64_t offset = 0;
    for (size_t i = 0; i < bottom.size(); ++i) {
      const int64_t width = bottom[i]->shape().Count(axis);
      visit(i, rows, width, step, offset);
      offset += width;
    }
  }
  const ConcatParameter param_;
};

const RegisterLayer<Concat> kRegistered{{.type = "Concat",
                                         .bottoms = {1, Arity::kAny},
                                         .tops = {1, 1},
                                         .summary = "Joins blobs along an axis."}};

}  // namespace
}  // namespace carafe
