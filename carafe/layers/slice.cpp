// Cuts the bottom along `axis` (or the old `slice_dim`) at the slice points, or into equal parts. A
// single top shares the bottom's memory.
#include <fmt/format.h>

#include <algorithm>

#include "carafe/kernels/blocks.h"
#include "carafe/layers/layer.h"
#include "carafe/layers/memory_format.h"

namespace carafe {
namespace {

template <typename T>
class Slice final : public Layer<T> {
 public:
  explicit Slice(const LayerSpec& spec) : Layer<T>(spec), param_(spec.param().slice_param()) {
    spec.Check(!param_.has_axis() || !param_.has_slice_dim(), "slice_param.slice_dim",
               "axis and slice_dim are both given", "keep axis");
    const int points = param_.slice_point_size(), tops = spec.param().top_size();
    spec.Check(points == 0 || points == tops - 1, "slice_param.slice_point",
               fmt::format("{} slice points are given for {} tops", points, tops),
               "give one point less than tops, or none for equal parts");
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    const int axis = Axis(bottom[0]);
    const int64_t size = bottom[0][axis];
    const int64_t tops = this->spec().param().top_size();
    Shapes result;
    if (param_.slice_point_size() == 0) {
      this->spec().Check(
          size % tops == 0, "slice_param",
          fmt::format("axis {} ({}) cannot be cut into {} equal parts", axis, size, tops),
          "give slice_point, or another number of tops");
      return Shapes(static_cast<size_t>(tops), bottom[0].With(axis, size / tops));
    }
    int64_t from = 0;
    for (int i = 0; i < tops; ++i) {
      const int64_t to = i < param_.slice_point_size() ? param_.slice_point(i) : size;
      this->spec().Check(
          to > from && to <= size,
          fmt::format("slice_param.slice_point[{}]",
                      std::max(0, std::min(i, param_.slice_point_size() - 1))),
          fmt::format("the slice points must rise and lie inside axis {} ({})", axis, size),
          "put them in order, from 1 to the size less 1");
      result.push_back(bottom[0].With(axis, to - from));
      from = to;
    }
    return result;
  }
  void Reshape(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Layer<T>::Reshape(run, bottom, top);
    if (top.size() > 1) return;
    top[0]->ShareData(*bottom[0]);
    top[0]->ShareDiff(*bottom[0]);
  }
  BackwardReads ReadsInBackward() const override { return {.bottom = false, .top = false}; }
  TopSharing SharesBottom() const override {
    const bool alone = this->spec().param().top_size() == 1;
    return {.data = alone, .diff = alone};
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    if (top.size() == 1) return;
    format_ = FormatFor(run.stream, bottom, top);
    const T* x = bottom[0]->data(run.stream, format_);
    ForEach(bottom, top, [&](size_t i, int64_t rows, int64_t width, int64_t step, int64_t offset) {
      CopyBlock(run.stream, rows, width, x + offset, step,
                top[i]->overwrite_data(run.stream, format_), width);
    });
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    if (top.size() == 1 || !propagate_down[0]) return;
    T* dx = bottom[0]->overwrite_diff(run.stream, format_);
    ForEach(bottom, top, [&](size_t i, int64_t rows, int64_t width, int64_t step, int64_t offset) {
      CopyBlock(run.stream, rows, width, top[i]->diff(run.stream, format_), width, dx + offset,
                step);
    });
  }

 private:
  int Axis(const Shape& x) const {
    return x.CanonicalAxis(param_.has_slice_dim() ? static_cast<int>(param_.slice_dim())
                                                  : param_.axis());
  }
  // Blocked along the channels only, and where no block is shared between two tops.
  Format FormatFor(const Stream& stream, Blobs<T> bottom, Blobs<T> top) const {
    if (Axis(bottom[0]->shape()) != 1) return Format::kPlain;
    for (size_t i = 0; i + 1 < top.size(); ++i) {
      if (top[i]->shape()[1] % kBlockChannels != 0) return Format::kPlain;
    }
    return CommonFormat(stream, *bottom[0], *top[0]);
  }
  // Calls visit(top, rows, width, step of the bottom's rows, offset in it) for each top's block.
  template <typename Visit>
  void ForEach(Blobs<T> bottom, Blobs<T> top, const Visit& visit) const {
    const int axis = Axis(bottom[0]->shape());
    const int64_t rows = bottom[0]->shape().Count(0, axis);
    const int64_t step = RowCount(*bottom[0], rows, axis);
    int64_t offset = 0;
    for (size_t i = 0; i < top.size(); ++i) {
      const int64_t width = RowCount(*top[i], rows, axis);
      visit(i, rows, width, step, offset);
      offset += width;
    }
  }
  int64_t RowCount(const Blob<T>& blob, int64_t rows, int axis) const {
    return format_ == Format::kPlain ? blob.shape().Count(axis)
                                     : StoredCount(blob, format_) / std::max<int64_t>(rows, 1);
  }
  const SliceParameter param_;
  Format format_ = Format::kPlain;  // of the last Forward
};

const RegisterLayer<Slice> kRegistered{{.type = "Slice",
                                        .bottoms = {1, 1},
                                        .tops = {1, Arity::kAny},
                                        .summary = "Cuts a blob into parts along an axis."}};

}  // namespace
}  // namespace carafe
