// Y = X W^T + b, X being the bottom flattened from `axis` on. W is stored (num_output, K), or (K,
// num_output) with `transpose`.
//   bottom (d0, .., d[axis-1], K...)  ->  top (d0, .., d[axis-1], num_output)
#include <algorithm>

#include "carafe/kernels/blocks.h"
#include "carafe/kernels/gemm.h"
#include "carafe/kernels/math.h"
#include "carafe/kernels/packed_gemm.h"
#include "carafe/kernels/small_batch.h"
#include "carafe/layers/factor_rows.h"
#include "carafe/layers/layer.h"
#include "carafe/layers/multiply_adds.h"
#include "carafe/layers/packed_product.h"
#include "carafe/layers/worker_rows.h"

namespace carafe {
namespace {

template <typename T>
class InnerProduct final : public Layer<T>, public HasFactorRows {
 public:
  explicit InnerProduct(const LayerSpec& spec)
      : Layer<T>(spec), param_(spec.param().inner_product_param()) {
    spec.Check(param_.num_output() > 0, "inner_product_param.num_output",
               "num_output is 0 or missing", "give the number of outputs, e.g. num_output: 10");
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    return {bottom[0].First(Axis(bottom[0])).Append(param_.num_output())};
  }
  std::vector<ParamDef> DeclareParams(const Shapes& bottom) const override {
    const Dims d = DimsOf(bottom[0]);
    const Shape weight = param_.transpose() ? Shape{d.inner, d.width} : Shape{d.width, d.inner};
    std::vector<ParamDef> params = {{weight, param_.weight_filler()}};
    if (param_.bias_term()) params.push_back({{d.width}, param_.bias_filler()});
    return params;
  }
  BackwardReads ReadsInBackward() const override { return {.bottom = true, .top = false}; }
  int64_t MultiplyAdds(const Shapes& bottom) const override {
    const Dims d = DimsOf(bottom[0]);
    return CheckedProduct(d.rows, CheckedProduct(d.width, d.inner));
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const Dims d = DimsOf(bottom[0]->shape());
    const int64_t all_rows = RowsOfAllWorkers(*this, run.replica, d.rows);
    T* y = top[0]->overwrite_data(stream);
    if constexpr (std::is_same_v<T, float>) {
      if (TakesSmallBatch(stream) && WinsForward({all_rows, d.width, d.inner})) {
        return SmallBatchForward(stream, SmallBatchOf(d), bottom[0]->data(stream),
                                 this->blob(kWeight).data(stream),
                                 param_.bias_term() ? this->blob(kBias).data(stream) : nullptr, y);
      }
    }
    Multiply(stream, all_rows, param_.transpose() ? Op::kNone : Op::kTrans, d.rows, d.width,
             d.inner, bottom[0]->data(stream), this->blob(kWeight).data(stream),
             param_.bias_term() ? this->blob(kBias).data(stream) : nullptr, y);
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    Stream& stream = run.stream;
    const Dims d = DimsOf(bottom[0]->shape());
    const T* dy = top[0]->diff(stream);
    const T* x = bottom[0]->data(stream);
    if (propagate_down[0]) {  // before the weights are updated
      BottomGradient(stream, RowsOfAllWorkers(*this, run.replica, d.rows), d, dy,
                     this->blob(kWeight).data(stream), bottom[0]->overwrite_diff(stream));
    }
    if (param_.bias_term() && this->param_propagate_down(kBias)) {
      AddColumnSums(stream, d.rows, d.width, dy, this->blob(kBias).mutable_diff(stream));
    }
    if (!this->param_propagate_down(kWeight) || this->gives_factors(kWeight)) return;
    if (taker_) return HandOver(stream, d, dy, x);
    AddWeightGradient(stream, d, dy, x, this->blob(kWeight).mutable_diff(stream));
  }
  bool HandOverParts(PartTaker<T> taker) override {
    const bool pays = !param_.transpose() && this->blob(kWeight).count() >= kPartsFrom;
    taker_ = pays ? std::move(taker) : PartTaker<T>();
    return taker_ != nullptr;
  }
  bool HasFactors(int param) const override { return param == kWeight; }
  int64_t FactorRows(int, const Shapes& bottom) const override { return DimsOf(bottom[0]).rows; }
  // dW (num_output, K) = dY^T X, or transposed (K, num_output) = X^T dY.
  Factors<T> GradientFactors(int, Stream& stream, Blobs<T> top, Blobs<T> bottom) override {
    const Dims d = DimsOf(bottom[0]->shape());
    const T *dy = top[0]->diff(stream), *x = bottom[0]->data(stream);
    if (param_.transpose()) return {d.rows, d.inner, d.width, x, dy};
    return {d.rows, d.width, d.inner, dy, x};
  }

 private:
  enum { kWeight, kBias };
  static constexpr int64_t kPartsFrom = int64_t{1} << 20;  // elements
  static constexpr int64_t kPart = int64_t{1} << 22;       // few calls, little memory
  struct Dims {
    int64_t rows, inner, width;
  };
  bool TakesSmallBatch(const Stream& stream) const {
    return stream.on_cpu() && !param_.transpose();
  }
  static SmallBatch SmallBatchOf(const Dims& d) { return {d.rows, d.width, d.inner}; }
  // Which kernel is the fastest was measured (docs/decisions/0036-small-batches.md). The choice for
  // a row's own results depends on the rows of all workers (0059); a sum over rows may look at
  // those that are here.
  static bool IsSmall(int64_t inner, int64_t width) { return inner * width <= int64_t{1} << 19; }
  // y (rows, width) = x B + row, which may be null; B (inner, width) is stored as `op` says.
  void Multiply(Stream& stream, int64_t all_rows, Op op, int64_t rows, int64_t width, int64_t inner,
                const T* x, const T* b, const T* row, T* y) {
    if constexpr (std::is_same_v<T, float>) {
      const bool reads_well = op == Op::kTrans || IsSmall(inner, width);
      if (stream.on_cpu() && all_rows >= 8 && all_rows <= 256 && reads_well) {
        return PanelGemm(stream, op, rows, width, inner, x, b, {row, 0}, y);
      }
    }
    const PackedProduct<T> product(stream, op, inner, width, IsSmall(inner, width) ? all_rows : 0,
                                   b, &packed_);
    if (row != nullptr) {
      product.MultiplyAddRow(rows, x, row, y);
    } else {
      product.Multiply(Op::kNone, rows, x, /*add=*/false, y);
    }
  }
  void AddWeightGradient(Stream& stream, const Dims& d, const T* dy, const T* x, T* dw) {
    if constexpr (std::is_same_v<T, float>) {
      if (TakesSmallBatch(stream) && WinsBackwardWeights(SmallBatchOf(d))) {
        return SmallBatchBackwardWeights(stream, SmallBatchOf(d), dy, x, dw);
      }
    }
    if (param_.transpose()) {
      Gemm<T>(stream, Op::kTrans, Op::kNone, d.inner, d.width, d.rows, 1, x, dy, 1, dw);
    } else {
      const bool packs =
          IsSmall(d.inner, d.width) && (d.width >= 256 || d.rows * d.inner <= int64_t{1} << 16);
      PackedProduct<T>(stream, Op::kNone, d.rows, d.inner, packs ? d.width : 0, x, &packed_)
          .Multiply(Op::kTrans, d.width, dy, /*add=*/true, dw);
    }
  }
  // Some rows of dW after the other, all in the place of the first, which is 0 before and after.
  void HandOver(Stream& stream, const Dims& d, const T* dy, const T* x) {
    if constexpr (std::is_same_v<T, float>) {
      if (TakesSmallBatch(stream) && WinsBackwardWeights(SmallBatchOf(d))) {
        return SmallBatchWeightParts(stream, SmallBatchOf(d), dy, x, taker_);
      }
    }
    T* part = this->blob(kWeight).mutable_diff(stream);
    const int64_t most = std::max<int64_t>(kPart / d.inner / 16, 1) * 16;  // whole vectors
    columns_.Reshape({d.rows, std::min(most, d.width)});
    T* columns = columns_.mutable_data(stream);
    for (int64_t first = 0; first < d.width; first += most) {
      const int64_t count = std::min(most, d.width - first);
      CopyBlock(stream, d.rows, count, dy + first, d.width, columns, count);
      Gemm<T>(stream, Op::kTrans, Op::kNone, count, d.inner, d.rows, 1, columns, x, 1, part);
      taker_(stream, first * d.inner, count * d.inner, part);
    }
  }
  void BottomGradient(Stream& stream, int64_t all_rows, const Dims& d, const T* dy, const T* w,
                      T* dx) {
    if constexpr (std::is_same_v<T, float>) {
      if (TakesSmallBatch(stream) && WinsBackwardData({all_rows, d.width, d.inner})) {
        return SmallBatchBackwardData(stream, SmallBatchOf(d), dy, w, dx);
      }
    }
    Multiply(stream, all_rows, param_.transpose() ? Op::kTrans : Op::kNone, d.rows, d.inner,
             d.width, dy, w, nullptr, dx);
  }
  int Axis(const Shape& x) const { return x.CanonicalAxis(param_.axis()); }
  Dims DimsOf(const Shape& x) const {
    return {x.Count(0, Axis(x)), x.Count(Axis(x)), param_.num_output()};
  }
  const InnerProductParameter param_;
  PartTaker<T> taker_;  // of the weights' gradient; null: it goes to the diff
  Blob<T> columns_;     // of dy, for one part
  Blob<T> packed_;      // the right-hand matrix of the product at hand
};

const RegisterLayer<InnerProduct> kRegistered{{.type = "InnerProduct",
                                               .bottoms = {1, 1},
                                               .tops = {1, 1},
                                               .summary = "Fully connected: Y = X W^T + b."}};

}  // namespace
}  // namespace carafe
