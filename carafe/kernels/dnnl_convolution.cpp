#include "carafe/kernels/dnnl_convolution.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <dnnl.hpp>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "carafe/base/error.h"

namespace carafe {
namespace {

using Tag = dnnl::memory::format_tag;
using Dims = dnnl::memory::dims;
using Desc = dnnl::memory::desc;

constexpr size_t kAlignment = 64;
size_t Aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

const dnnl::engine& Cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// oneDNN asks OpenMP how many threads there are, when it plans and when it runs.
class ThreadScope {
 public:
  explicit ThreadScope(int threads) : before_(omp_get_max_threads()) {
    omp_set_num_threads(threads);
  }
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;
  ~ThreadScope() { omp_set_num_threads(before_); }

 private:
  const int before_;
};

// Its own errors are bugs of ours: what it cannot do was asked before.
template <typename F>
void Guarded(const F& f) {
  try {
    f();
  } catch (const dnnl::error& error) {
    throw InternalError(fmt::format("oneDNN: {}", error.what()));
  }
}

dnnl::memory Memory(const Desc& desc, const void* at) {
  return dnnl::memory(desc, Cpu(), const_cast<void*>(at));
}

// One direction: the primitive, the formats that it wants weights in, and reorders from and to the
// plain one.
struct Primitive {
  dnnl::primitive convolution, to_own, to_plain;  // to_plain adds to what is there
  Desc weights, scratchpad;

  size_t weight_bytes() const { return Aligned(weights.get_size()); }
  size_t ScratchBytes() const { return weight_bytes() + Aligned(scratchpad.get_size()); }
};

class Convolution final : public DnnlConvolution {
 public:
  Convolution(const ConvolutionShape& shape, int threads, Format source)
      : shape_(shape), threads_(threads), source_(source) {
    const bool plain = source == Format::kPlain;
    const Dims s = {shape.images, shape.in_channels, shape.in_h, shape.in_w};
    const Dims d = {shape.images, shape.out_channels, shape.out_h, shape.out_w};
    src_ = Desc(s, Type(), plain ? Tag::nchw : Tag::nChw8c);
    dst_ = Desc(d, Type(), Tag::nChw8c);
    bias_ = Desc({shape.out_channels}, Type(), Tag::x);
    Dims w = {shape.group_out_channels(), shape.group_in_channels(), shape.kernel_h,
              shape.kernel_w};
    if (shape.groups > 1) w.insert(w.begin(), shape.groups);
    plain_weights_ = Desc(w, Type(), shape.groups > 1 ? Tag::goihw : Tag::oihw);
    any_weights_ = Desc(w, Type(), Tag::any);
    strides_ = {shape.stride_h, shape.stride_w};
    dilates_ = {shape.dilation_h - 1, shape.dilation_w - 1};
    pad_ = {shape.pad_h, shape.pad_w};
    pad_after_ = {After(shape.in_h, shape.out_h, shape.kernel_h, shape.stride_h, shape.pad_h,
                        shape.dilation_h),
                  After(shape.in_w, shape.out_w, shape.kernel_w, shape.stride_w, shape.pad_w,
                        shape.dilation_w)};
  }

  Format source_format() const override { return source_; }
  bool Has(ConvolutionDirection direction) override {
    if (direction == ConvolutionDirection::kForward) return Find(ForwardKind(true));
    return Find(direction == ConvolutionDirection::kBackwardData ? kData : kWeights);
  }
  size_t ScratchBytes(ConvolutionDirection direction) override {
    using enum ConvolutionDirection;
    if (direction == kForward) return std::max(BytesOf(kPlainForward), BytesOf(kForwardWithBias));
    return BytesOf(direction == kBackwardData ? kData : kWeights);
  }

  void Forward(const float* src, const float* weights, const float* bias, float* dst,
               void* scratch) override {
    Run(ForwardKind(bias != nullptr), scratch, [&](const Primitive& p, Arguments& arguments) {
      OwnWeights(p, weights, scratch);
      arguments.insert({DNNL_ARG_SRC, Memory(src_, src)});
      arguments.insert({DNNL_ARG_WEIGHTS, Memory(p.weights, scratch)});
      if (bias != nullptr) arguments.insert({DNNL_ARG_BIAS, Memory(bias_, bias)});
      arguments.insert({DNNL_ARG_DST, Memory(dst_, dst)});
    });
  }

  void BackwardData(const float* d_dst, const float* weights, float* d_src,
                    void* scratch) override {
    Run(kData, scratch, [&](const Primitive& p, Arguments& arguments) {
      OwnWeights(p, weights, scratch);
      arguments.insert({DNNL_ARG_DIFF_DST, Memory(dst_, d_dst)});
      arguments.insert({DNNL_ARG_WEIGHTS, Memory(p.weights, scratch)});
      arguments.insert({DNNL_ARG_DIFF_SRC, Memory(src_, d_src)});
    });
  }

  void BackwardWeights(const float* src, const float* d_dst, float* d_weights,
                       void* scratch) override {
    Run(kWeights, scratch, [&](const Primitive& p, Arguments& arguments) {
      arguments.insert({DNNL_ARG_SRC, Memory(src_, src)});
      arguments.insert({DNNL_ARG_DIFF_DST, Memory(dst_, d_dst)});
      arguments.insert({DNNL_ARG_DIFF_WEIGHTS, Memory(p.weights, scratch)});
    });
    const ThreadScope scope(threads_);
    const Primitive& p = *primitives_[kWeights];
    Guarded([&] {
      Execute(p.to_plain, {{DNNL_ARG_FROM, Memory(p.weights, scratch)},
                           {DNNL_ARG_TO, Memory(plain_weights_, d_weights)}});
    });
  }

 private:
  using Arguments = std::unordered_map<int, dnnl::memory>;
  enum Kind { kPlainForward, kForwardWithBias, kData, kWeights, kKinds };
  static int ForwardKind(bool bias) { return bias ? kForwardWithBias : kPlainForward; }
  static dnnl::memory::data_type Type() { return dnnl::memory::data_type::f32; }
  // What must follow the last row for the windows to end there; negative if some are left over.
  static int64_t After(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t pad,
                       int64_t dilation) {
    return (out - 1) * stride + dilation * (kernel - 1) + 1 - in - pad;
  }

  size_t BytesOf(int kind) { return Find(kind) ? primitives_[kind]->ScratchBytes() : 0; }
  bool Find(int kind) {
    if (!tried_[kind]) {
      tried_[kind] = true;
      const ThreadScope scope(threads_);
      try {
        primitives_[kind] = Make(kind);
      } catch (const dnnl::error&) {
        primitives_[kind].reset();
      }
    }
    return primitives_[kind].has_value();
  }

  dnnl::convolution_forward::primitive_desc ForwardDesc(bool bias,
                                                        const dnnl::primitive_attr& attr) const {
    constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;
    constexpr auto kMode = dnnl::prop_kind::forward_training;
    if (bias) {
      return {{kMode, kAlgorithm, src_, any_weights_, bias_, dst_, strides_, dilates_, pad_,
               pad_after_},
              attr,
              Cpu()};
    }
    return {{kMode, kAlgorithm, src_, any_weights_, dst_, strides_, dilates_, pad_, pad_after_},
            attr,
            Cpu()};
  }

  std::optional<Primitive> Make(int kind) const {
    constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (kind < kData) {
      const auto desc = ForwardDesc(kind == kForwardWithBias, attr);
      return Wrap(desc, desc.weights_desc());
    }
    const auto hint = ForwardDesc(false, attr);
    if (kind == kData) {
      const dnnl::convolution_backward_data::primitive_desc desc(
          {kAlgorithm, src_, any_weights_, dst_, strides_, dilates_, pad_, pad_after_}, attr, Cpu(),
          hint);
      return Wrap(desc, desc.weights_desc());
    }
    const dnnl::convolution_backward_weights::primitive_desc desc(
        {kAlgorithm, src_, any_weights_, dst_, strides_, dilates_, pad_, pad_after_}, attr, Cpu(),
        hint);
    return Wrap(desc, desc.diff_weights_desc());
  }

  template <typename D>
  std::optional<Primitive> Wrap(const D& desc, const Desc& weights) const {
    if (std::string_view(desc.impl_info_str()).find("ref") != std::string_view::npos) return {};
    dnnl::primitive_attr add;
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    add.set_post_ops(sum);
    Primitive p;
    p.convolution = dnnl::primitive(desc.get());
    p.weights = weights;
    p.scratchpad = desc.scratchpad_desc();
    p.to_own = dnnl::reorder({Cpu(), plain_weights_, Cpu(), weights});
    p.to_plain = dnnl::reorder({Cpu(), weights, Cpu(), plain_weights_, add});
    return p;
  }

  void OwnWeights(const Primitive& p, const float* weights, void* scratch) {
    Execute(p.to_own, {{DNNL_ARG_FROM, Memory(plain_weights_, weights)},
                       {DNNL_ARG_TO, Memory(p.weights, scratch)}});
  }

  template <typename F>
  void Run(int kind, void* scratch, const F& fill) {
    Ensure(Find(kind), "a convolution was asked of oneDNN that it does not have");
    const ThreadScope scope(threads_);
    const Primitive& p = *primitives_[kind];
    Guarded([&] {
      Arguments arguments;
      fill(p, arguments);
      char* pad = static_cast<char*>(scratch) + p.weight_bytes();
      arguments.insert({DNNL_ARG_SCRATCHPAD, Memory(p.scratchpad, pad)});
      Execute(p.convolution, arguments);
    });
  }

  void Execute(const dnnl::primitive& primitive, const Arguments& arguments) {
    primitive.execute(stream_, arguments);
    stream_.wait();
  }

  const ConvolutionShape shape_;
  const int threads_;
  const Format source_;
  dnnl::stream stream_{Cpu()};
  Desc src_, dst_, bias_, plain_weights_, any_weights_;
  Dims strides_, dilates_, pad_, pad_after_;
  bool tried_[kKinds] = {};
  std::optional<Primitive> primitives_[kKinds];
};

// Blocks of 8 must not lie across groups.
bool GroupsFit(const ConvolutionShape& s) {
  if (s.groups == 1) return true;
  const bool depthwise = s.group_in_channels() == 1 && s.group_out_channels() == 1;
  if (depthwise) return s.in_channels % kBlockChannels == 0;
  return s.group_in_channels() % kBlockChannels == 0 &&
         s.group_out_channels() % kBlockChannels == 0;
}

}  // namespace

std::unique_ptr<DnnlConvolution> DnnlConvolution::Make(const ConvolutionShape& shape, int threads) {
  if (!GroupsFit(shape) || shape.images == 0) return nullptr;
  const bool few = shape.groups == 1 && shape.in_channels < kBlockChannels;
  for (const Format source : {Format::kPlain, Format::kBlocked8}) {
    if (source == Format::kPlain && !few) continue;
    auto made = std::make_unique<Convolution>(shape, threads, source);
    if (made->Has(ConvolutionDirection::kForward)) return made;
  }
  return nullptr;
}

}  // namespace carafe
