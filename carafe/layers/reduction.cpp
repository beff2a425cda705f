// Adds up everything from `axis` on: coeff * sum of x (SUM), |x| (ASUM), x^2 (SUMSQ), or coeff *
// the mean of x (MEAN).
//   bottom (d0, .., d[axis-1], ..)  ->  top (d0, .., d[axis-1])
#include "carafe/kernels/reduce.h"
#include "carafe/layers/layer.h"

namespace carafe {
namespace {

template <typename T>
class Reduction final : public Layer<T> {
 public:
  explicit Reduction(const LayerSpec& spec)
      : Layer<T>(spec), param_(spec.param().reduction_param()) {}
  Shapes InferShapes(const Shapes& bottom) const override {
    return {bottom[0].First(bottom[0].CanonicalAxis(param_.axis()))};
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    const Dims d = DimsOf(bottom[0]->shape());
    SumRows(run.stream, Kind(), d.rows, d.width, Factor(d), bottom[0]->data(run.stream),
            top[0]->mutable_data(run.stream));
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    if (!propagate_down[0]) return;
    const Dims d = DimsOf(bottom[0]->shape());
    SumRowsBackward(run.stream, Kind(), d.rows, d.width, Factor(d), bottom[0]->data(run.stream),
                    top[0]->diff(run.stream), bottom[0]->mutable_diff(run.stream));
  }

 private:
  struct Dims {
    int64_t rows, width;
  };
  Dims DimsOf(const Shape& x) const {
    const int axis = x.CanonicalAxis(param_.axis());
    return {x.Count(0, axis), x.Count(axis)};
  }
  RowSum Kind() const {
    if (param_.operation() == ReductionParameter::ASUM) return RowSum::kAbs;
    return param_.operation() == ReductionParameter::SUMSQ ? RowSum::kSquare : RowSum::kValue;
  }
  T Factor(const Dims& d) const {
    const bool mean = param_.operation() == ReductionParameter::MEAN;
    return static_cast<T>(param_.coeff()) / (mean ? static_cast<T>(d.width) : T(1));
  }
  const ReductionParameter param_;
};

const RegisterLayer<Reduction> kRegistered{
    {.type = "Reduction",
     .bottoms = {1, 1},
     .tops = {1, 1},
     .summary = "Sum, sum of absolute values or squares, or mean of all from an axis on."}};

}  // namespace
}  // namespace carafe
