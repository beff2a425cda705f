// Row i of the top is row index[i] of the bottom; rows may come several times or not at all.
//   bottoms: data (N, ..), indices (M)  ->  top (M, ..)
#include <fmt/format.h>

#include "carafe/base/error.h"
#include "carafe/kernels/blocks.h"
#include "carafe/kernels/softmax.h"
#include "carafe/layers/layer.h"

namespace carafe {
namespace {

template <typename T>
class BatchReindex final : public Layer<T> {
 public:
  using Layer<T>::Layer;
  Shapes InferShapes(const Shapes& bottom) const override {
    this->spec().Check(bottom[0].rank() >= 1 && bottom[1].rank() == 1, "bottom",
                       fmt::format("BatchReindex needs rows and a list of indices, not {} and {}",
                                   bottom[0].ToString(), bottom[1].ToString()),
                       "give indices with one axis");
    return {bottom[0].With(0, bottom[1][0])};
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const int64_t rows = bottom[0]->shape()[0], picked = bottom[1]->count();
    const T* index = bottom[1]->data(stream);
    const LabelCount count = CountLabels<T>(stream, {picked, rows, 1}, index, nullptr);
    if (count.bad >= 0) {
      throw DataError(fmt::format("layer \"{}\" (BatchReindex)", this->name()), count.bad,
                      fmt::format("index {} is not one of the {} rows", count.bad_label, rows),
                      "give indices from 0 to the number of rows less 1");
    }
    if (top[0]->count() == 0) return;
    GatherRows(stream, picked, bottom[0]->count() / rows, index, bottom[0]->data(stream),
               top[0]->mutable_data(stream));
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    this->spec().Check(!propagate_down[1], "propagate_down", "indices have no gradient",
                       "take them from a layer without parameters, and leave force_backward away");
    if (!propagate_down[0]) return;
    bottom[0]->ZeroDiff(run.stream);
    if (top[0]->count() == 0) return;
    ScatterAddRows(run.stream, bottom[1]->count(), bottom[0]->count() / bottom[0]->shape()[0],
                   bottom[1]->data(run.stream), top[0]->diff(run.stream),
                   bottom[0]->mutable_diff(run.stream));
  }
};

const RegisterLayer<BatchReindex> kRegistered{{.type = "BatchReindex",
                                               .bottoms = {2, 2},
                                               .tops = {1, 1},
                                               .summary = "Picks rows of a batch by index."}};

}  // namespace
}  // namespace carafe
