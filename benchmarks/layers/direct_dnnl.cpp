#include <dnnl.hpp>

#include "benchmarks/layers/direct.h"

namespace carafe::benchmark {
namespace {

using Desc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;
using Dims = dnnl::memory::dims;

Desc Describe(const Dims& dims, Tag tag) { return {dims, dnnl::memory::data_type::f32, tag}; }

class DnnlDirect final : public Direct {
 public:
  explicit DnnlDirect(const ConvolutionShape& s)
      : src_dims_{s.images, s.in_channels, s.in_h, s.in_w},
        dst_dims_{s.images, s.out_channels, s.out_h, s.out_w},
        weight_dims_{s.groups, s.group_out_channels(), s.group_in_channels(), s.kernel_h,
                     s.kernel_w} {
    using dnnl::convolution_backward_data;
    using dnnl::convolution_backward_weights;
    using dnnl::convolution_forward;
    const Desc src = Describe(src_dims_, Tag::any), dst = Describe(dst_dims_, Tag::any);
    const Desc weights = Describe(weight_dims_, Tag::any);
    const Dims strides = {s.stride_h, s.stride_w}, pads = {s.pad_h, s.pad_w};
    const auto direct = dnnl::algorithm::convolution_direct;
    const convolution_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, direct, src, weights, dst, strides, pads, pads},
        engine_);
    const convolution_backward_data::primitive_desc data(
        {direct, src, weights, dst, strides, pads, pads}, engine_, forward);
    const convolution_backward_weights::primitive_desc gradient(
        {direct, src, weights, dst, strides, pads, pads}, engine_, forward);
    forward_ = {convolution_forward(forward), forward.src_desc(), forward.weights_desc(),
                forward.dst_desc()};
    data_ = {convolution_backward_data(data), data.diff_src_desc(), data.weights_desc(),
             data.diff_dst_desc()};
    gradient_ = {convolution_backward_weights(gradient), gradient.src_desc(),
                 gradient.diff_weights_desc(), gradient.diff_dst_desc()};
    for (Operation* op : {&forward_, &data_, &gradient_}) {
      op->src = dnnl::memory(op->src_desc, engine_);
      op->weights = dnnl::memory(op->weights_desc, engine_);
      op->dst = dnnl::memory(op->dst_desc, engine_);
    }
  }

  void Set(const float* src, const float* weights, const float* d_dst) override {
    In(src, src_dims_, Tag::nChw8c, forward_.src);
    In(src, src_dims_, Tag::nChw8c, gradient_.src);
    In(weights, weight_dims_, Tag::goihw, forward_.weights);
    In(weights, weight_dims_, Tag::goihw, data_.weights);
    In(d_dst, dst_dims_, Tag::nChw8c, data_.dst);
    In(d_dst, dst_dims_, Tag::nChw8c, gradient_.dst);
  }
  void Forward() override {
    Execute(forward_, {{DNNL_ARG_SRC, forward_.src},
                       {DNNL_ARG_WEIGHTS, forward_.weights},
                       {DNNL_ARG_DST, forward_.dst}});
  }
  void BackwardData() override {
    Execute(data_, {{DNNL_ARG_DIFF_SRC, data_.src},
                    {DNNL_ARG_WEIGHTS, data_.weights},
                    {DNNL_ARG_DIFF_DST, data_.dst}});
  }
  void BackwardWeights() override {
    Execute(gradient_, {{DNNL_ARG_SRC, gradient_.src},
                        {DNNL_ARG_DIFF_WEIGHTS, gradient_.weights},
                        {DNNL_ARG_DIFF_DST, gradient_.dst}});
  }
  void Get(float* dst, float* d_src, float* d_weights) override {
    Out(forward_.dst, dst_dims_, Tag::nChw8c, dst);
    Out(data_.src, src_dims_, Tag::nChw8c, d_src);
    Out(gradient_.weights, weight_dims_, Tag::goihw, d_weights);
  }

 private:
  struct Operation {
    dnnl::primitive primitive;
    Desc src_desc, weights_desc, dst_desc;
    dnnl::memory src, weights, dst;
  };
  void Execute(const Operation& op, const std::unordered_map<int, dnnl::memory>& arguments) {
    op.primitive.execute(stream_, arguments);
    stream_.wait();
  }
  void In(const float* from, const Dims& dims, Tag tag, dnnl::memory& to) {
    dnnl::memory plain(Describe(dims, tag), engine_, const_cast<float*>(from));
    dnnl::reorder(plain, to).execute(stream_, plain, to);
    stream_.wait();
  }
  void Out(dnnl::memory& from, const Dims& dims, Tag tag, float* to) {
    dnnl::memory plain(Describe(dims, tag), engine_, to);
    dnnl::reorder(from, plain).execute(stream_, from, plain);
    stream_.wait();
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  Dims src_dims_, dst_dims_, weight_dims_;
  Operation forward_, data_, gradient_;
};

}  // namespace

std::unique_ptr<Direct> MakeDirect(const ConvolutionShape& shape) {
  return std::make_unique<DnnlDirect>(shape);
}

}  // namespace carafe::benchmark
