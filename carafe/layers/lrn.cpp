// Local response normalisation: y = x * s^-beta.
//   ACROSS_CHANNELS  s = k + alpha / n   * sum of x^2 over the n channels around
//   WITHIN_CHANNEL   s = 1 + alpha / n^2 * sum of x^2 over the n x n pixels around (k is not used)
// Beyond the borders x counts as 0.
#include "carafe/kernels/lrn.h"

#include <fmt/format.h>

#include "carafe/kernels/blocked_lrn.h"
#include "carafe/kernels/math.h"
#include "carafe/layers/layer.h"
#include "carafe/layers/memory_format.h"

namespace carafe {
namespace {

template <typename T>
class Lrn final : public Layer<T> {
 public:
  explicit Lrn(const LayerSpec& spec)
      : Layer<T>(spec),
        within_(spec.param().lrn_param().norm_region() == LRNParameter::WITHIN_CHANNEL),
        half_((spec.param().lrn_param().local_size() - 1) / 2) {
    const LRNParameter& param = spec.param().lrn_param();
    spec.Check(param.local_size() % 2 == 1, "lrn_param.local_size",
               fmt::format("local_size {} is not odd", param.local_size()),
               "the window needs a middle: use 3, 5, 7, ..");
    const double n = param.local_size();
    alpha_ = static_cast<T>(param.alpha() / (within_ ? n * n : n));
    beta_ = static_cast<T>(param.beta());
    k_ = within_ ? T(1) : static_cast<T>(param.k());
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    this->spec().Check(bottom[0].rank() == 4, "bottom",
                       fmt::format("LRN needs a bottom of 4 axes (N, C, H, W), this one is {}",
                                   bottom[0].ToString()),
                       "reshape the bottom");
    return {bottom[0]};
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const Shape& shape = bottom[0]->shape();
    format_ = KnowsBlocked() ? CommonFormat(stream, *bottom[0], *top[0]) : Format::kPlain;
    const T* x = bottom[0]->data(stream, format_);
    T* y = top[0]->overwrite_data(stream, format_);
    if constexpr (std::is_same_v<T, float>) {
      if (format_ == Format::kBlocked8) {
        const BlockedGeometry g = bottom[0]->blocked_geometry();
        if (!within_) return BlockedLrnAcrossForward(stream, g, half_, numbers(), x, y);
        return BlockedLrnWithinForward(stream, g, shape[3], half_, numbers(), x, y);
      }
    }
    for (Blob<T>* blob : {&scale_, &work_, &sums_, &rows_}) blob->Reshape(shape);
    T* squares = work_.mutable_data(stream);
    Multiply(stream, shape.Count(), x, x, squares);
    SumWindows(stream, shape, squares, scale_.mutable_data(stream));
    LrnForward(stream, shape.Count(), k_, alpha_, beta_, x, scale_.mutable_data(stream), y);
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    if (!propagate_down[0]) return;
    Stream& stream = run.stream;
    const Shape& shape = bottom[0]->shape();
    const T* dy = top[0]->diff(stream, format_);
    const T* x = bottom[0]->data(stream, format_);
    T* dx = bottom[0]->overwrite_diff(stream, format_);
    if constexpr (std::is_same_v<T, float>) {
      if (format_ == Format::kBlocked8) {
        const BlockedGeometry g = bottom[0]->blocked_geometry();
        if (!within_) return BlockedLrnAcrossBackward(stream, g, half_, numbers(), x, dy, dx);
        return BlockedLrnWithinBackward(stream, g, shape[3], half_, numbers(), x, dy, dx);
      }
    }
    const T* scale = scale_.data(stream);
    T* ratio = work_.mutable_data(stream);
    LrnRatio(stream, shape.Count(), top[0]->data(stream), dy, scale, ratio);
    T* sums = sums_.mutable_data(stream);
    SumWindows(stream, shape, ratio, sums);
    LrnBackward(stream, shape.Count(), alpha_, beta_, x, dy, scale, sums, dx);
  }

 private:
  // y = the sums of x over the windows: of channels, or of rows and then of columns.
  void SumWindows(Stream& stream, const Shape& s, const T* x, T* y) {
    if (!within_) return WindowSum(stream, s[0], s[1], s.Count(2), half_, x, y);
    T* rows = rows_.mutable_data(stream);
    WindowSum(stream, s.Count(0, 2), s[2], s[3], half_, x, rows);
    WindowSum(stream, s.Count(0, 3), s[3], 1, half_, rows, y);
  }

  bool KnowsBlocked() const { return k_ > 0 && (within_ || half_ <= kMaxBlockedLrnHalf); }
  LrnNumbers numbers() const {
    return {static_cast<float>(k_), static_cast<float>(alpha_), static_cast<float>(beta_)};
  }

  const bool within_;
  const int64_t half_;
  T alpha_, beta_, k_;
  Format format_ = Format::kPlain;  // of the last Forward
  Blob<T> scale_;                   // s, kept for Backward in the plain format
  Blob<T> work_, sums_, rows_;
};

const RegisterLayer<Lrn> kRegistered{{.type = "LRN",
                                      .bottoms = {1, 1},
                                      .tops = {1, 1},
                                      .summary = "Normalises each value by the energy around it."}};

}  // namespace
}  // namespace carafe
