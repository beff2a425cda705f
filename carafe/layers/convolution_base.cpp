#include "carafe/layers/convolution_base.h"

#include <fmt/format.h>

#include "carafe/kernels/math.h"

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

template <typename T>
void ConvolutionBase<T>::Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) {
  Stream& stream = run.stream;
  const Dims d = Configure(bottom[0]->shape());
  const T* weights = this->blob(kWeight).data(stream);
  for (size_t i = 0; i < bottom.size(); ++i) {
    const T* x = bottom[i]->data(stream);
    T* y = top[i]->mutable_data(stream);
    for (int64_t n = 0; n < d.images; ++n) {
      if (transposed_) {
        product_.ApplyTransposed(stream, weights, x + n * d.in, y + n * d.out);
      } else {
        product_.Apply(stream, weights, x + n * d.in, y + n * d.out);
      }
    }
    if (param_.bias_term()) {
      AddToChannels(stream, d.images, param_.num_output(), d.out_plane,
                    this->blob(kBias).data(stream), y);
    }
  }
}

template <typename T>
void ConvolutionBase<T>::Backward(RunContext& run, Blobs<T> top,
                                  const std::vector<bool>& propagate_down, Blobs<T> bottom) {
  Stream& stream = run.stream;
  const Dims d = Configure(bottom[0]->shape());
  const T* weights = this->blob(kWeight).data(stream);
  for (size_t i = 0; i < bottom.size(); ++i) {
    const T* dy = top[i]->diff(stream);
    if (param_.bias_term() && this->param_propagate_down(kBias)) {
      AddChannelSums(stream, d.images, param_.num_output(), d.out_plane, dy,
                     this->blob(kBias).mutable_diff(stream));
    }
    if (this->param_propagate_down(kWeight)) {
      const T* x = bottom[i]->data(stream);
      T* dw = this->blob(kWeight).mutable_diff(stream);
      for (int64_t n = 0; n < d.images; ++n) {
        const T *windowed = transposed_ ? dy + n * d.out : x + n * d.in,
                *other = transposed_ ? x + n * d.in : dy + n * d.out;
        product_.AddWeightGradient(stream, windowed, other, dw);
      }
    }
    if (!propagate_down[i]) continue;
    T* dx = bottom[i]->mutable_diff(stream);
    for (int64_t n = 0; n < d.images; ++n) {
      if (transposed_) {
        product_.Apply(stream, weights, dy + n * d.out, dx + n * d.in);
      } else {
        product_.ApplyTransposed(stream, weights, dy + n * d.out, dx + n * d.in);
      }
    }
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
typename ConvolutionBase<T>::Dims ConvolutionBase<T>::Configure(const Shape& x) {
  const int axis = Axis(x);
  const Shape y = TopShape(x);
  const auto in = x.dims().subspan(static_cast<size_t>(axis) + 1);
  const auto out = y.dims().subspan(static_cast<size_t>(axis) + 1);
  if (transposed_) {
    product_.Configure(MakeGeometry(y[axis], out, in, WindowsOf(x)), x[axis], param_.group());
  } else {
    product_.Configure(MakeGeometry(x[axis], in, out, WindowsOf(x)), y[axis], param_.group());
  }
  return {x.Count(0, axis), x.Count(axis), y.Count(axis), y.Count(axis + 1)};
}

template class ConvolutionBase<float>;
template class ConvolutionBase<double>;

}  // namespace carafe
