// y = W * x + b: cross-correlation over any number of spatial axes, in groups of channels.
//   out = floor((in + 2 pad - dilation (kernel - 1) - 1) / stride) + 1
#include <optional>
#include <type_traits>

#include "carafe/kernels/activation.h"
#include "carafe/kernels/channels.h"
#include "carafe/layers/convolution_base.h"
#include "carafe/layers/factor_rows.h"
#include "carafe/layers/fast_convolution.h"

namespace carafe {
namespace {

// Images of float on the CPU go through FastConvolution, all else the plain way.
template <typename T>
class Convolution final : public ConvolutionBase<T>, public HasFactorRows {
 public:
  explicit Convolution(const LayerSpec& spec) : ConvolutionBase<T>(spec, /*transposed=*/false) {}

  void SetChoices(std::shared_ptr<const AlgorithmChoices> choices) override {
    fast_.SetChoices(std::move(choices));
  }
  void SetScratch(std::shared_ptr<Buffer> scratch) override {
    scratch_ = scratch;
    fast_.SetScratch(std::move(scratch));
  }
  FusibleFollowers CanFuse() const override { return {.norm = true, .relu = true}; }
  void Fuse(const Followers<T>& followers) override {
    relu_ = followers.relu;
    if (norm_ != nullptr) norm_->Fuse({});
    norm_ = followers.norm;
    if (norm_ != nullptr) norm_->Fuse({.scale = followers.scale});
  }
  std::vector<PlannedWay> Ways(Stream& stream, const Shape& bottom, int runs) override {
    if (!ConfigureFast(stream, bottom)) {
      return {{.direction = "all", .algorithm = "gemm", .formats = "plain", .chosen = true}};
    }
    return fast_.Ways(stream, runs);
  }
  void Measure(Stream& stream, const Shape& bottom, int runs,
               std::map<std::string, ConvolutionAlgorithm>* fastest) override {
    if (ConfigureFast(stream, bottom)) fast_.Measure(stream, runs, fastest);
  }
  // Where the window is the whole image, the output is 1 x 1 and dW (num_output, C h w) = dY^T X.
  bool HasFactors(int param) const override {
    return param == kWeight && this->param().group() == 1;
  }
  int64_t FactorRows(int, const Shapes& bottom) const override {
    if (bottom.size() != 1) return 0;
    const Shape& x = bottom[0];
    const int axis = x.CanonicalAxis(this->param().axis());
    const Windows windows = this->WindowsOf(x);
    for (int i = 0; i < Count(windows); ++i) {
      const Window& window = At(windows, i);
      const bool whole = window.kernel == x[axis + 1 + i] && window.pad == 0 &&
                         (window.dilation == 1 || window.kernel == 1);
      if (!whole) return 0;
    }
    return x.Count(0, axis);
  }
  Factors<T> GradientFactors(int, Stream& stream, Blobs<T> top, Blobs<T> bottom) override {
    const Shape& x = bottom[0]->shape();
    const int axis = x.CanonicalAxis(this->param().axis());
    return {x.Count(0, axis), static_cast<int64_t>(this->param().num_output()), x.Count(axis),
            top[0]->diff(stream), bottom[0]->data(stream)};
  }

 private:
  using Base = ConvolutionBase<T>;
  using Base::kBias;
  using Base::kWeight;
  using typename Base::Dims;

  void ForwardOne(Stream& stream, const Dims& d, Blob<T>& bottom, Blob<T>& top) override {
    const Blob<T>* weights = &this->blob(kWeight);
    const Blob<T>* bias = this->param().bias_term() ? &this->blob(kBias) : nullptr;
    if (norm_ != nullptr) Fold(stream, &weights, &bias);
    ForwardWith(stream, d, bottom, *weights, bias, top);
    folded_.ReleaseData();
  }
  void ForwardWith(Stream& stream, const Dims& d, const Blob<T>& bottom, const Blob<T>& weights,
                   const Blob<T>* bias, Blob<T>& top) {
    if constexpr (std::is_same_v<T, float>) {
      if (ConfigureFast(stream, bottom.shape()) &&
          fast_.Forward(stream, bottom, weights.data(stream),
                        bias == nullptr ? nullptr : bias->data(stream), relu_, top)) {
        return;
      }
    }
    this->PlainForward(stream, d, bottom, weights, bias, top);
    T* y = top.mutable_data(stream);
    if (relu_) ReluForward<T>(stream, top.count(), 0, y, y);
  }
  // The layers' weights stay as they are; what is used is s_o w, and s_o bias + t_o, of now.
  void Fold(Stream& stream, const Blob<T>** weights, const Blob<T>** bias) {
    norm_->ChannelCoefficients(stream, *bias, &fold_scale_, &fold_shift_);
    folded_.PoolData(scratch_->pool());
    folded_.Reshape((*weights)->shape());
    const int64_t outputs = (*weights)->shape()[0];
    ScaleChannels<T>(stream, {1, outputs, (*weights)->count() / outputs}, fold_scale_.data(stream),
                     (*weights)->data(stream), folded_.overwrite_data(stream));
    *weights = &folded_;
    *bias = &fold_shift_;
  }

  void BackwardOne(Stream& stream, const Dims& d, Blob<T>& top, bool propagate_down,
                   Blob<T>& bottom) override {
    const bool fast = ConfigureFast(stream, bottom.shape());
    if (!fast || !FastReluBias(stream, top)) {
      T* dy = top.mutable_diff(stream);
      if (relu_) ReluBackward<T>(stream, top.count(), 0, top.data(stream), dy, dy);
      if (this->wants_gradient(kBias)) this->PlainBiasGradient(stream, d, top);
    }
    if (this->wants_gradient(kWeight) && !this->gives_factors(kWeight) &&
        !(fast && FastWeights(stream, top, bottom))) {
      this->PlainWeightGradient(stream, d, top, bottom);
    }
    if (propagate_down && !(fast && FastData(stream, top, bottom))) {
      this->PlainDataGradient(stream, d, top, bottom);
    }
  }

  bool FastReluBias(Stream& stream, Blob<T>& top) {
    if constexpr (std::is_same_v<T, float>) {
      float* d_bias =
          this->wants_gradient(kBias) ? this->blob(kBias).mutable_diff(stream) : nullptr;
      return fast_.BackwardReluBias(stream, relu_, d_bias, top);
    }
    return false;
  }
  bool FastWeights(Stream& stream, const Blob<T>& top, const Blob<T>& bottom) {
    if constexpr (std::is_same_v<T, float>) {
      return fast_.BackwardWeights(stream, bottom, top, this->blob(kWeight).mutable_diff(stream));
    }
    return false;
  }
  bool FastData(Stream& stream, const Blob<T>& top, Blob<T>& bottom) {
    if constexpr (std::is_same_v<T, float>) {
      return fast_.BackwardData(stream, top, this->blob(kWeight).data(stream), bottom);
    }
    return false;
  }

  // False where the plain way is the only one.
  bool ConfigureFast(Stream& stream, const Shape& x) {
    if (!std::is_same_v<T, float> || !stream.on_cpu() || x.rank() != 4 ||
        x.CanonicalAxis(this->param().axis()) != 1) {
      return false;
    }
    if (!(x == fast_for_)) {
      fast_shape_ = FastShape(x);
      fast_for_ = x;
    }
    if (!fast_shape_) return false;
    fast_.Configure(stream, *fast_shape_);
    return true;
  }
  // Nothing for blobs without elements.
  std::optional<ConvolutionShape> FastShape(const Shape& x) const {
    const Shape y = this->TopShape(x);
    if (x.Count() == 0 || y.Count() == 0) return std::nullopt;
    const Windows windows = this->WindowsOf(x);
    const Window &h = windows[0], &w = windows[1];
    return ConvolutionShape{.images = x[0],
                            .groups = this->param().group(),
                            .in_channels = x[1],
                            .out_channels = y[1],
                            .in_h = x[2],
                            .in_w = x[3],
                            .out_h = y[2],
                            .out_w = y[3],
                            .kernel_h = h.kernel,
                            .kernel_w = w.kernel,
                            .stride_h = h.stride,
                            .stride_w = w.stride,
                            .pad_h = h.pad,
                            .pad_w = w.pad,
                            .dilation_h = h.dilation,
                            .dilation_w = w.dilation};
  }

  FastConvolution fast_;
  Shape fast_for_;  // the bottom that fast_shape_ was made for
  std::optional<ConvolutionShape> fast_shape_;
  bool relu_ = false;
  Layer<T>* norm_ = nullptr;  // fused into this layer, with what is fused into the norm
  std::shared_ptr<Buffer> scratch_ = std::make_shared<Buffer>();
  Blob<T> folded_, fold_scale_, fold_shift_;  // weights, and what makes them, while Forward runs
};

const RegisterLayer<Convolution> kRegistered{
    {.type = "Convolution",
     .bottoms = {1, Arity::kAny},
     .tops = {1, Arity::kAny},
     .summary = "Cross-correlation with learned filters over any number of spatial axes.",
     .as_many_tops = true}};

}  // namespace
}  // namespace carafe
