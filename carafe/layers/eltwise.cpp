// Combines bottoms of one shape element by element: SUM (with a coefficient per bottom), PROD, MAX.
// Ties of MAX go to bottom 1 between the first two, and to the earlier one after that.
// MAX may run in place with one of the first two bottoms. So may SUM, but then, as in Caffe, the
// bottom that is also the top counts as 0 in the sum: old nets get their old numbers, and a
// warning.
#include <fmt/format.h>

#include "carafe/base/log.h"
#include "carafe/kernels/activation.h"
#include "carafe/kernels/combine.h"
#include "carafe/kernels/math.h"
#include "carafe/layers/layer.h"
#include "carafe/layers/memory_format.h"

namespace carafe {
namespace {

template <typename T>
class Eltwise final : public Layer<T> {
 public:
  explicit Eltwise(const LayerSpec& spec) : Layer<T>(spec), param_(spec.param().eltwise_param()) {
    const LayerParameter& layer = spec.param();
    spec.Check(param_.coeff_size() == 0 || param_.coeff_size() == layer.bottom_size(),
               "eltwise_param.coeff",
               fmt::format("{} coefficients are given for {} bottoms", param_.coeff_size(),
                           layer.bottom_size()),
               "give one per bottom, or none");
    spec.Check(param_.coeff_size() == 0 || param_.operation() == EltwiseParameter::SUM,
               "eltwise_param.coeff", "only SUM takes coefficients",
               "leave coeff away, or scale the bottoms by a Power or Scale layer");
    for (int i = 0; i < layer.bottom_size(); ++i) {
      if (layer.top_size() == 0 || layer.bottom(i) != layer.top(0)) continue;
      spec.Check(i < 2 && param_.operation() != EltwiseParameter::PROD, "top[0]",
                 fmt::format("Eltwise cannot run in place like this (\"{}\" is bottom {} and top)",
                             layer.top(0), i),
                 "give the top a name of its own");
      if (param_.operation() != EltwiseParameter::SUM) continue;
      in_place_ = i;
      LogWarning(
          "layer \"{}\" (Eltwise) runs in place: \"{}\" counts as 0 in the sum, as in Caffe; give "
          "the top a name of its own to add it",
          spec.name(), layer.top(0));
    }
    for (int i = 0; i < layer.bottom_size(); ++i) {
      coefficients_.push_back(static_cast<T>(param_.coeff_size() > 0 ? param_.coeff(i) : 1));
    }
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    for (const Shape& shape : bottom) {
      this->spec().Check(shape == bottom[0], "bottom",
                         fmt::format("the bottoms have different shapes: {} and {}",
                                     bottom[0].ToString(), shape.ToString()),
                         "give bottoms of one shape");
    }
    return {bottom[0]};
  }
  BackwardReads ReadsInBackward() const override {
    const bool reads = param_.operation() == EltwiseParameter::PROD;
    return {.bottom = reads, .top = reads};
  }
  FusibleFollowers CanFuse() const override { return {.relu = true}; }
  void Fuse(const Followers<T>& followers) override { relu_ = followers.relu; }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    format_ = CommonFormat<T>(stream, bottom);
    const int64_t n = StoredCount(*top[0], format_);
    const T *a = bottom[0]->data(stream, format_), *b = bottom[1]->data(stream, format_);
    T* y = top[0]->overwrite_data(stream, format_);
    switch (param_.operation()) {
      case EltwiseParameter::SUM:
        if (relu_ && bottom.size() == 2 && in_place_ < 0) {
          return WeightedAddRelu(stream, n, coefficients_[0], a, coefficients_[1], b, y);
        }
        WeightedAdd(stream, n, in_place_ == 0 ? T(0) : coefficients_[0], a,
                    in_place_ == 1 ? T(0) : coefficients_[1], b, y);
        for (size_t i = 2; i < bottom.size(); ++i) {
          Axpy(stream, n, coefficients_[i], bottom[i]->data(stream, format_), y);
        }
        break;
      case EltwiseParameter::PROD:
        Multiply(stream, n, a, b, y);
        for (size_t i = 2; i < bottom.size(); ++i) {
          Multiply<T>(stream, n, y, bottom[i]->data(stream, format_), y);
        }
        break;
      case EltwiseParameter::MAX: {
        which_.Reshape({n});
        int32_t* which = which_.mutable_data(stream);
        MaxOfTwo(stream, n, a, b, y, which);
        for (size_t i = 2; i < bottom.size(); ++i) {
          MaxWith(stream, n, bottom[i]->data(stream, format_), static_cast<int32_t>(i), y, which);
        }
        break;
      }
    }
    if (relu_) ReluForward<T>(stream, n, 0, y, y);
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    if (relu_) {
      const int64_t n = StoredCount(*top[0], format_);
      const T* y = top[0]->data(run.stream, format_);
      T* dy = top[0]->mutable_diff(run.stream, format_);
      if (param_.operation() == EltwiseParameter::SUM && bottom.size() == 2 && in_place_ < 0 &&
          propagate_down[0] && propagate_down[1]) {
        return WeightedAddReluGradient<T>(
            run.stream, n, y, dy, coefficients_[0], bottom[0]->overwrite_diff(run.stream, format_),
            coefficients_[1], bottom[1]->overwrite_diff(run.stream, format_));
      }
      ReluBackward<T>(run.stream, n, 0, y, dy, dy);
    }
    // A bottom that is the top comes last: its gradient overwrites what the others read.
    for (const bool in_place : {false, true}) {
      for (size_t i = 0; i < bottom.size(); ++i) {
        if (propagate_down[i] && (bottom[i] == top[0]) == in_place) {
          BottomGradient(run.stream, i, top[0], bottom);
        }
      }
    }
  }

 private:
  void BottomGradient(Stream& stream, size_t i, Blob<T>* top, Blobs<T> bottom) {
    const int64_t n = StoredCount(*top, format_);
    const T* dy = top->diff(stream, format_);
    T* dx = bottom[i]->overwrite_diff(stream, format_);
    switch (param_.operation()) {
      case EltwiseParameter::SUM:
        return Scale(stream, n, coefficients_[i], dy, dx);
      case EltwiseParameter::MAX:
        return SelectGradient(stream, n, which_.data(stream), static_cast<int32_t>(i), dy, dx);
      case EltwiseParameter::PROD:
        if (!param_.stable_prod_grad()) {
          QuotientGradient(stream, n, bottom[i]->data(stream, format_), top->data(stream, format_),
                           dy, dx);
          return RestorePadding(stream, *bottom[i], format_, dx);  // 0 / 0 is not a number
        }
        stream.Copy(dx, dy, static_cast<size_t>(n));
        for (size_t j = 0; j < bottom.size(); ++j) {
          if (j != i) Multiply<T>(stream, n, dx, bottom[j]->data(stream, format_), dx);
        }
    }
  }

  const EltwiseParameter param_;
  std::vector<T> coefficients_;
  bool relu_ = false;               // of a ReLU that follows in place
  int in_place_ = -1;               // of SUM: the bottom that is the top
  Format format_ = Format::kPlain;  // of the last Forward
  Blob<int32_t> which_;             // of MAX: the bottom that each element came from
};

const RegisterLayer<Eltwise> kRegistered{
    {.type = "Eltwise",
     .bottoms = {2, Arity::kAny},
     .tops = {1, 1},
     .summary = "Sum, product or maximum of blobs, element by element.",
     .in_place = true}};

}  // namespace
}  // namespace carafe
