// Puts the bottoms one after the other along `axis` (or the old `concat_dim`). A single bottom is
// handed through: its top shares its memory.
#include <fmt/format.h>

#include <algorithm>

#include "carafe/kernels/blocks.h"
#include "carafe/layers/layer.h"
#include "carafe/layers/memory_format.h"

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
  BackwardReads ReadsInBackward() const override { return {.bottom = false, .top = false}; }
  TopSharing SharesBottom() const override {
    const bool alone = this->spec().param().bottom_size() == 1;
    return {.data = alone, .diff = alone};
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    if (bottom.size() == 1) return;
    format_ = FormatFor(run.stream, bottom);
    T* y = top[0]->overwrite_data(run.stream, format_);
    ForEach(bottom, top, [&](size_t i, int64_t rows, int64_t width, int64_t step, int64_t offset) {
      CopyBlock(run.stream, rows, width, bottom[i]->data(run.stream, format_), width, y + offset,
                step);
    });
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    if (bottom.size() == 1) return;
    const T* dy = top[0]->diff(run.stream, format_);
    ForEach(bottom, top, [&](size_t i, int64_t rows, int64_t width, int64_t step, int64_t offset) {
      if (!propagate_down[i]) return;
      CopyBlock(run.stream, rows, width, dy + offset, step,
                bottom[i]->overwrite_diff(run.stream, format_), width);
    });
  }

 private:
  int Axis(const Shape& x) const {
    return x.CanonicalAxis(param_.has_concat_dim() ? static_cast<int>(param_.concat_dim())
                                                   : param_.axis());
  }
  // Blocked along the channels only, and where no block is shared between two bottoms.
  Format FormatFor(const Stream& stream, Blobs<T> bottom) const {
    if (Axis(bottom[0]->shape()) != 1) return Format::kPlain;
    for (size_t i = 0; i + 1 < bottom.size(); ++i) {
      if (bottom[i]->shape()[1] % kBlockChannels != 0) return Format::kPlain;
    }
    return CommonFormat<T>(stream, bottom);
  }
  // Calls visit(bottom, rows, width, step of the top's rows, offset in it) for each bottom's block.
  template <typename Visit>
  void ForEach(Blobs<T> bottom, Blobs<T> top, const Visit& visit) const {
    const int axis = Axis(bottom[0]->shape());
    const int64_t rows = bottom[0]->shape().Count(0, axis);
    const int64_t step = RowCount(*top[0], rows, axis);
    int64_t offset = 0;
    for (size_t i = 0; i < bottom.size(); ++i) {
      const int64_t width = RowCount(*bottom[i], rows, axis);
      visit(i, rows, width, step, offset);
      offset += width;
    }
  }
  int64_t RowCount(const Blob<T>& blob, int64_t rows, int axis) const {
    return format_ == Format::kPlain ? blob.shape().Count(axis)
                                     : StoredCount(blob, format_) / std::max<int64_t>(rows, 1);
  }
  const ConcatParameter param_;
  Format format_ = Format::kPlain;  // of the last Forward
};

const RegisterLayer<Concat> kRegistered{{.type = "Concat",
                                         .bottoms = {1, Arity::kAny},
                                         .tops = {1, 1},
                                         .summary = "Joins blobs along an axis."}};

}  // namespace
}  // namespace carafe
