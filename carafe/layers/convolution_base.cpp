#include "carafe/layers/convolution_base.h"

#include <fmt/format.h>

#include "carafe/kernels/math.h"
#include "carafe/layers/multiply_adds.h"

namespace carafe {

template <typename T>
ConvolutionBase<T>::ConvolutionBase(const LayerSpec& spec, bool transposed)
    : Layer<T>(spec), param_(spec.param().convolution_param()), transposed_(transposed) {
  spec.Check(param_.num_output() > 0, "convolution_param.num_output", "num_output is 0 or missing",
             "give the number of filters, e.g. num_output: 20");
  spec.Check(param_.group() > 0, "convolution_param.group", "group is 0", "use 1 or more groups");
  spec.Check(param_.num_output() % param_.group() == 0, "convolution_param.group",
             fmt::format("num_output {} cannot be divided into {} groups", param_.num_output(),
                         param_.group()),
             "use a group that divides num_output");
}

template <typename T>
Shapes ConvolutionBase<T>::InferShapes(const Shapes& bottom) const {
  for (const Shape& shape : bottom) {
    this->spec().Check(shape == bottom[0], "bottom",
                       fmt::format("the bottoms have different shapes: {} and {}",
                                   bottom[0].ToString(), shape.ToString()),
                       "use one layer per shape; weights can be shared by name (param { name })");
  }
  return Shapes(bottom.size(), TopShape(bottom[0]));
}

template <typename T>
std::vector<ParamDef> ConvolutionBase<T>::DeclareParams(const Shapes& bottom) const {
  const int64_t channels = bottom[0][Axis(bottom[0])], outputs = param_.num_output();
  Shape weight = transposed_ ? Shape{channels, outputs / param_.group()}
                             : Shape{outputs, channels / param_.group()};
  for (const Window& window : WindowsOf(bottom[0])) weight = weight.Append(window.kernel);
  std::vector<ParamDef> params = {{weight, param_.weight_filler()}};
  if (param_.bias_term()) params.push_back({{outputs}, param_.bias_filler()});
  return params;
}

// Every output sums over C / group channels and the window; transposed, every input spreads over
// num_output / group channels and the window.
template <typename T>
int64_t ConvolutionBase<T>::MultiplyAdds(const Shapes& bottom) const {
  const int64_t window = DeclareParams(bottom)[kWeight].shape.Count(1);
  const Shapes spread = transposed_ ? bottom : InferShapes(bottom);
  int64_t sum = 0;
  for (const Shape& shape : spread) sum = CheckedSum(sum, CheckedProduct(shape.Count(), window));
  return sum;
}

template <typename T>
void ConvolutionBase<T>::Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) {
  const Dims d = Configure(bottom[0]->shape());
  for (size_t i = 0; i < bottom.size(); ++i) ForwardOne(run.stream, d, *bottom[i], *top[i]);
}

template <typename T>
void ConvolutionBase<T>::Backward(RunContext& run, Blobs<T> top,
                                  const std::vector<bool>& propagate_down, Blobs<T> bottom) {
  const Dims d = Configure(bottom[0]->shape());
  for (size_t i = 0; i < bottom.size(); ++i) {
    BackwardOne(run.stream, d, *top[i], propagate_down[i], *bottom[i]);
  }
}

template <typename T>
void ConvolutionBase<T>::ForwardOne(Stream& stream, const Dims& d, Blob<T>& bottom, Blob<T>& top) {
  PlainForward(stream, d, bottom, this->blob(kWeight),
               param_.bias_term() ? &this->blob(kBias) : nullptr, top);
}

template <typename T>
void ConvolutionBase<T>::BackwardOne(Stream& stream, const Dims& d, Blob<T>& top,
                                     bool propagate_down, Blob<T>& bottom) {
  if (wants_gradient(kBias)) PlainBiasGradient(stream, d, top);
  if (wants_gradient(kWeight)) PlainWeightGradient(stream, d, top, bottom);
  if (propagate_down) PlainDataGradient(stream, d, top, bottom);
}

template <typename T>
void ConvolutionBase<T>::PlainForward(Stream& stream, const Dims& d, const Blob<T>& bottom,
                                      const Blob<T>& weights, const Blob<T>* bias, Blob<T>& top) {
  const T* w = weights.data(stream);
  const T* x = bottom.data(stream);
  T* y = top.overwrite_data(stream);
  if (transposed_) {
    ApplyTransposed(stream, d, w, x, y);
  } else {
    Apply(stream, d, w, x, y);
  }
  if (bias != nullptr) {
    AddToChannels(stream, d.images, param_.num_output(), d.out_plane, bias->data(stream), y);
  }
}

template <typename T>
void ConvolutionBase<T>::PlainBiasGradient(Stream& stream, const Dims& d, const Blob<T>& top) {
  AddChannelSums(stream, d.images, param_.num_output(), d.out_plane, top.diff(stream),
                 this->blob(kBias).mutable_diff(stream));
}

template <typename T>
void ConvolutionBase<T>::PlainWeightGradient(Stream& stream, const Dims& d, const Blob<T>& top,
                                             const Blob<T>& bottom) {
  const T *dy = top.diff(stream), *x = bottom.data(stream);
  T* dw = this->blob(kWeight).mutable_diff(stream);
  AddWeightGradient(stream, d, transposed_ ? dy : x, transposed_ ? x : dy, dw);
}

template <typename T>
void ConvolutionBase<T>::PlainDataGradient(Stream& stream, const Dims& d, const Blob<T>& top,
                                           Blob<T>& bottom) {
  const T* weights = this->blob(kWeight).data(stream);
  const T* dy = top.diff(stream);
  T* dx = bottom.overwrite_diff(stream);
  if (transposed_) {
    Apply(stream, d, weights, dy, dx);
  } else {
    ApplyTransposed(stream, d, weights, dy, dx);
  }
}

template <typename T>
void ConvolutionBase<T>::Apply(Stream& stream, const Dims& d, const T* weights, const T* windowed,
                               T* other) {
  if (is_depthwise_) return DepthwiseApply(stream, depthwise_, weights, windowed, other);
  for (int64_t n = 0; n < d.images; ++n) {
    product_.Apply(stream, weights, windowed + n * WindowedSize(d), other + n * OtherSize(d));
  }
}

template <typename T>
void ConvolutionBase<T>::ApplyTransposed(Stream& stream, const Dims& d, const T* weights,
                                         const T* other, T* windowed) {
  if (is_depthwise_) return DepthwiseApplyTransposed(stream, depthwise_, weights, other, windowed);
  for (int64_t n = 0; n < d.images; ++n) {
    product_.ApplyTransposed(stream, weights, other + n * OtherSize(d),
                             windowed + n * WindowedSize(d));
  }
}

template <typename T>
void ConvolutionBase<T>::AddWeightGradient(Stream& stream, const Dims& d, const T* windowed,
                                           const T* other, T* dw) {
  if (is_depthwise_) return DepthwiseAddWeightGradient(stream, depthwise_, windowed, other, dw);
  for (int64_t n = 0; n < d.images; ++n) {
    product_.AddWeightGradient(stream, windowed + n * WindowedSize(d), other + n * OtherSize(d),
                               dw);
  }
}

template <typename T>
Windows ConvolutionBase<T>::WindowsOf(const Shape& x) const {
  return ConvolutionWindows(this->spec(), param_, x.rank() - Axis(x) - 1);
}

template <typename T>
Shape ConvolutionBase<T>::TopShape(const Shape& x) const {
  const int axis = Axis(x);
  this->spec().Check(x[axis] % param_.group() == 0, "convolution_param.group",
                     fmt::format("the bottom's {} channels cannot be divided into {} groups",
                                 x[axis], param_.group()),
                     "use a group that divides the number of channels");
  Shape top = x.First(axis).Append(param_.num_output());
  int a = axis;
  for (const Window& window : WindowsOf(x)) {
    ++a;
    top = top.Append(transposed_ ? DeconvolvedSize(this->spec(), window, x[a], a)
                                 : ConvolvedSize(this->spec(), window, x[a], a));
  }
  return top;
}

template <typename T>
const typename ConvolutionBase<T>::Dims& ConvolutionBase<T>::Configure(const Shape& x) {
  if (x.rank() > 0 && x == configured_) return dims_;
  const int axis = Axis(x);
  const Shape y = TopShape(x);
  const auto in = x.dims().subspan(static_cast<size_t>(axis) + 1);
  const auto out = y.dims().subspan(static_cast<size_t>(axis) + 1);
  const ColumnGeometry windows = transposed_ ? MakeGeometry(y[axis], out, in, WindowsOf(x))
                                             : MakeGeometry(x[axis], in, out, WindowsOf(x));
  const int64_t features = transposed_ ? x[axis] : y[axis];
  dims_ = {x.Count(0, axis), x.Count(axis), y.Count(axis), y.Count(axis + 1)};
  is_depthwise_ = ConfigureDepthwise(dims_, windows, features);
  if (!is_depthwise_) product_.Configure(windows, features, param_.group());
  configured_ = x;
  return dims_;
}

// Each channel with windows is a group: matrix products would be as low as its few features. One
// spatial axis counts as images of one row; three and more are left to the products.
template <typename T>
bool ConvolutionBase<T>::ConfigureDepthwise(const Dims& d, const ColumnGeometry& windows,
                                            int64_t features) {
  constexpr int64_t kMostFeaturesOfAChannel = 8;
  const bool fits = param_.group() > 1 && windows.channels == param_.group() &&
                    features <= kMostFeaturesOfAChannel * windows.channels &&
                    (windows.axes == 1 || windows.axes == 2);
  if (!fits) return false;
  const int w = windows.axes - 1;
  const bool image = windows.axes == 2;
  depthwise_ = {.images = d.images,
                .channels = windows.channels,
                .multiplier = features / windows.channels,
                .height = image ? windows.in[0] : 1,
                .width = windows.in[w],
                .out_height = image ? windows.out[0] : 1,
                .out_width = windows.out[w],
                .kernel_h = image ? windows.kernel[0] : 1,
                .kernel_w = windows.kernel[w],
                .stride_h = image ? windows.stride[0] : 1,
                .stride_w = windows.stride[w],
                .pad_h = image ? windows.pad[0] : 0,
                .pad_w = windows.pad[w],
                .dilation_h = image ? windows.dilation[0] : 1,
                .dilation_w = windows.dilation[w]};
  return true;
}

template class ConvolutionBase<float>;
template class ConvolutionBase<double>;

}  // namespace carafe
