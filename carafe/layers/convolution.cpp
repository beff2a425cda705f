// y = W * x + b: cross-correlation over any number of spatial axes, in groups of channels.
//   bottom (batch.., C, in..)  ->  top (batch.., num_output, out..), C being at `axis`
//   out = floor((in + 2 pad - dilation (kernel - 1) - 1) / stride) + 1
//   W (num_output, C / group, kernel..), b (num_output)
// Several bottoms, all of one shape, share the weights; each has its top.
#include <fmt/format.h>

#include "carafe/kernels/math.h"
#include "carafe/layers/column_product.h"
#include "carafe/layers/spatial.h"

namespace carafe {
namespace {

template <typename T>
class Convolution final : public Layer<T> {
 public:
  explicit Convolution(const LayerSpec& spec)
      : Layer<T>(spec), param_(spec.param().convolution_param()) {
    spec.Check(param_.num_output() > 0, "convolution_param.num_output",
               "num_output is 0 or missing", "give the number of filters, e.g. num_output: 20");
    spec.Check(param_.group() > 0, "convolution_param.group", "group is 0", "use 1 or more groups");
    spec.Check(param_.num_output() % param_.group() == 0, "convolution_param.group",
               fmt::format("num_output {} cannot be divided into {} groups", param_.num_output(),
                           param_.group()),
               "use a group that divides num_output");
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    for (const Shape& shape : bottom) {
      this->spec().Check(shape == bottom[0], "bottom",
                         fmt::format("the bottoms have different shapes: {} and {}",
                                     bottom[0].ToString(), shape.ToString()),
                         "use one layer per shape; weights can be shared by name (param { name })");
    }
    return Shapes(bottom.size(), TopShape(bottom[0]));
  }
  std::vector<ParamDef> DeclareParams(const Shapes& bottom) const override {
    const int axis = Axis(bottom[0]);
    Shape weight{param_.num_output(), bottom[0][axis] / param_.group()};
    for (const Window& window : WindowsOf(bottom[0])) weight = weight.Append(window.kernel);
    std::vector<ParamDef> params = {{weight, param_.weight_filler()}};
    if (param_.bias_term()) params.push_back({{param_.num_output()}, param_.bias_filler()});
    return params;
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const Dims d = Configure(bottom[0]->shape());
    const T* weights = this->blob(kWeight).data(stream);
    for (size_t i = 0; i < bottom.size(); ++i) {
      const T* x = bottom[i]->data(stream);
      T* y = top[i]->mutable_data(stream);
      for (int64_t n = 0; n < d.images; ++n) {
        product_.Apply(stream, weights, x + n * product_.x_size(), y + n * product_.y_size());
      }
      if (param_.bias_term()) {
        AddToChannels(stream, d.images, param_.num_output(), d.out_size,
                      this->blob(kBias).data(stream), y);
      }
    }
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    Stream& stream = run.stream;
    const Dims d = Configure(bottom[0]->shape());
    const T* weights = this->blob(kWeight).data(stream);
    for (size_t i = 0; i < bottom.size(); ++i) {
      const T* dy = top[i]->diff(stream);
      if (param_.bias_term() && this->param_propagate_down(kBias)) {
        AddChannelSums(stream, d.images, param_.num_output(), d.out_size, dy,
                       this->blob(kBias).mutable_diff(stream));
      }
      if (this->param_propagate_down(kWeight)) {
        const T* x = bottom[i]->data(stream);
        T* dw = this->blob(kWeight).mutable_diff(stream);
        for (int64_t n = 0; n < d.images; ++n) {
          product_.AddWeightGradient(stream, x + n * product_.x_size(), dy + n * product_.y_size(),
                                     dw);
        }
      }
      if (propagate_down[i]) {
        T* dx = bottom[i]->mutable_diff(stream);
        for (int64_t n = 0; n < d.images; ++n) {
          product_.ApplyTransposed(stream, weights, dy + n * product_.y_size(),
                                   dx + n * product_.x_size());
        }
      }
    }
  }

 private:
  enum { kWeight, kBias };
  struct Dims {
    int64_t images, out_size;
  };
  int Axis(const Shape& x) const { return x.CanonicalAxis(param_.axis()); }
  Windows WindowsOf(const Shape& x) const {
    return ConvolutionWindows(this->spec(), param_, x.rank() - Axis(x) - 1);
  }
  Shape TopShape(const Shape& x) const {
    const int axis = Axis(x);
    this->spec().Check(x[axis] % param_.group() == 0, "convolution_param.group",
                       fmt::format("the bottom's {} channels cannot be divided into {} groups",
                                   x[axis], param_.group()),
                       "use a group that divides the number of channels");
    Shape top = x.First(axis).Append(param_.num_output());
    int a = axis;
    for (const Window& window : WindowsOf(x)) {
      ++a;
      top = top.Append(ConvolvedSize(this->spec(), window, x[a], a));
    }
    return top;
  }
  // Prepares the product for this bottom shape.
  Dims Configure(const Shape& x) {
    const size_t axis = static_cast<size_t>(Axis(x));
    const Shape top = TopShape(x);
    const ColumnGeometry geometry = MakeGeometry(x[Axis(x)], x.dims().subspan(axis + 1),
                                                 top.dims().subspan(axis + 1), WindowsOf(x));
    product_.Configure(geometry, param_.num_output(), param_.group());
    return {x.Count(0, Axis(x)), geometry.out_size()};
  }

  const ConvolutionParameter param_;
  ColumnProduct<T> product_;
};

const RegisterLayer<Convolution> kRegistered{
    {.type = "Convolution",
     .bottoms = {1, Arity::kAny},
     .tops = {1, Arity::kAny},
     .summary = "Cross-correlation with learned filters over any number of spatial axes.",
     .as_many_tops = true}};

}  // namespace
}  // namespace carafe
