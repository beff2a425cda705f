// What Convolution and Deconvolution share: they are each other's transposes.
#pragma once

#include "carafe/kernels/depthwise.h"
#include "carafe/layers/column_product.h"
#include "carafe/layers/spatial.h"

namespace carafe {

// Several bottoms, all of one shape, share the weights; each has its top.
//   bottom (batch.., C, in..)  ->  top (batch.., num_output, out..), C being at `axis`
//   weights: (num_output, C / group, kernel..), or transposed (C, num_output / group, kernel..)
template <typename T>
class ConvolutionBase : public Layer<T> {
 public:
  ConvolutionBase(const LayerSpec& spec, bool transposed);
  Shapes InferShapes(const Shapes& bottom) const override;
  std::vector<ParamDef> DeclareParams(const Shapes& bottom) const override;
  BackwardReads ReadsInBackward() const override {
    return {.bottom = wants_gradient(kWeight), .top = false};
  }
  int64_t MultiplyAdds(const Shapes& bottom) const override;
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override;
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override;

 protected:
  enum { kWeight, kBias };
  // Of one image: elements of the bottom, of the top, and of one channel of the top.
  struct Dims {
    int64_t images, in, out, out_plane;
  };
  // One bottom and its top; by default the plain ways below. Configure has been called.
  virtual void ForwardOne(Stream& stream, const Dims& d, Blob<T>& bottom, Blob<T>& top);
  virtual void BackwardOne(Stream& stream, const Dims& d, Blob<T>& top, bool propagate_down,
                           Blob<T>& bottom);
  void PlainForward(Stream& stream, const Dims& d, const Blob<T>& bottom, const Blob<T>& weights,
                    const Blob<T>* bias, Blob<T>& top);
  void PlainBiasGradient(Stream& stream, const Dims& d, const Blob<T>& top);
  void PlainWeightGradient(Stream& stream, const Dims& d, const Blob<T>& top,
                           const Blob<T>& bottom);
  void PlainDataGradient(Stream& stream, const Dims& d, const Blob<T>& top, Blob<T>& bottom);
  bool wants_gradient(int blob) const {
    return (blob == kWeight || param_.bias_term()) && this->param_propagate_down(blob);
  }
  const ConvolutionParameter& param() const { return param_; }
  Windows WindowsOf(const Shape& x) const;
  Shape TopShape(const Shape& x) const;

 private:
  int Axis(const Shape& x) const { return x.CanonicalAxis(param_.axis()); }
  // Prepares the product for this bottom shape, unless it is that of the last time.
  const Dims& Configure(const Shape& x);
  bool ConfigureDepthwise(const Dims& d, const ColumnGeometry& windows, int64_t features);
  // The three products for all images, by the way that Configure has chosen.
  void Apply(Stream& stream, const Dims& d, const T* weights, const T* windowed, T* other);
  void ApplyTransposed(Stream& stream, const Dims& d, const T* weights, const T* other,
                       T* windowed);
  void AddWeightGradient(Stream& stream, const Dims& d, const T* windowed, const T* other, T* dw);
  int64_t WindowedSize(const Dims& d) const { return transposed_ ? d.out : d.in; }
  int64_t OtherSize(const Dims& d) const { return transposed_ ? d.in : d.out; }

  const ConvolutionParameter param_;
  const bool transposed_;
  Shape configured_;  // what the following was made for; a scalar before the first time
  Dims dims_ = {};
  ColumnProduct<T> product_;  // its windows lie on the bottom, or transposed on the top
  bool is_depthwise_ = false;
  DepthwiseGeometry depthwise_ = {};  // instead, where each channel is a group of its own
};

}  // namespace carafe
