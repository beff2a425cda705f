// Keeps the rows whose selector (the last bottom, one number per row) is not 0; one top per other
// bottom. How many rows there are is known only in Forward, which gives the tops their shape;
// before, all rows are assumed.
#include <fmt/format.h>

#include "carafe/kernels/blocks.h"
#include "carafe/layers/layer.h"

namespace carafe {
namespace {

template <typename T>
class Filter final : public Layer<T> {
 public:
  explicit Filter(const LayerSpec& spec) : Layer<T>(spec) {
    spec.Check(spec.param().top_size() == spec.param().bottom_size() - 1, "top",
               fmt::format("there are {} tops for {} bottoms", spec.param().top_size(),
                           spec.param().bottom_size()),
               "give one top for each bottom but the selector, which is the last one");
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    const Shape& selector = bottom.back();
    this->spec().Check(
        selector.rank() >= 1 && selector.Count() == selector[0], "bottom",
        fmt::format("the selector must have one number per row, not {}", selector.ToString()),
        "give a selector of shape (N) or (N, 1, ..)");
    Shapes tops(bottom.begin(), bottom.end() - 1);
    for (const Shape& shape : tops) {
      this->spec().Check(
          shape.LegacyDim(0) == selector[0], "bottom",
          fmt::format("a bottom {} and the selector {} have different numbers of rows",
                      shape.ToString(), selector.ToString()),
          "give all bottoms the same batch size");
    }
    return tops;
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const std::vector<T> selector = bottom.back()->DataToHost(stream);
    std::vector<double> kept;
    for (size_t i = 0; i < selector.size(); ++i) {
      if (selector[i] != 0) kept.push_back(static_cast<double>(i));
    }
    kept_.Reshape({static_cast<int64_t>(kept.size())});
    kept_.SetData(stream, kept);
    for (size_t i = 0; i < top.size(); ++i) {
      top[i]->Reshape(bottom[i]->shape().With(0, kept_.count()));
      if (top[i]->count() == 0) continue;
      GatherRows<T, double>(stream, kept_.count(), top[i]->count() / kept_.count(),
                            kept_.data(stream), bottom[i]->data(stream),
                            top[i]->mutable_data(stream));
    }
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    Stream& stream = run.stream;
    this->spec().Check(!propagate_down.back(), "propagate_down", "the selector has no gradient",
                       "take it from a layer without parameters, and leave force_backward away");
    for (size_t i = 0; i < top.size(); ++i) {
      if (!propagate_down[i]) continue;
      bottom[i]->ZeroDiff(stream);
      if (top[i]->count() == 0) continue;
      ScatterAddRows<T, double>(stream, kept_.count(), top[i]->count() / kept_.count(),
                                kept_.data(stream), top[i]->diff(stream),
                                bottom[i]->mutable_diff(stream));
    }
  }

 private:
  Blob<double> kept_{Shape{0}};  // the rows of the last Forward
};

const RegisterLayer<Filter> kRegistered{{.type = "Filter",
                                         .bottoms = {2, Arity::kAny},
                                         .tops = {1, Arity::kAny},
                                         .summary = "Keeps the rows that a selector names."}};

}  // namespace
}  // namespace carafe
