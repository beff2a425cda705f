#include "carafe/kernels/winograd.h"

#include <algorithm>
#include <limits>

#include "carafe/base/error.h"
#include "carafe/kernels/winograd_passes.h"

namespace carafe {
namespace winograd {

class Algorithm {
 public:
  Algorithm(const ConvolutionShape& s, const Transforms& transforms)
      : forward(transforms, Src(s), Dst(s), s.groups, s.pad_h, s.pad_w, false),
        backward_data(transforms, Dst(s), Src(s), s.groups, s.kernel_h - 1 - s.pad_h,
                      s.kernel_w - 1 - s.pad_w, true),
        adjoint_data(transforms, Src(s), Dst(s), s.groups, s.pad_h, s.pad_w),
        backward_weights(transforms, Src(s), Dst(s), s.groups, s.pad_h, s.pad_w) {}

  const ImagePass forward, backward_data;
  const AdjointPass adjoint_data;  // instead of backward_data, where it pays
  const WeightPass backward_weights;

 private:
  static ImageShape Src(const ConvolutionShape& s) {
    return {s.images, s.in_channels, s.in_h, s.in_w};
  }
  static ImageShape Dst(const ConvolutionShape& s) {
    return {s.images, s.out_channels, s.out_h, s.out_w};
  }
};

}  // namespace winograd

bool WinogradConvolution::Supports(const ConvolutionShape& s, WinogradTile tile) {
  const int r = winograd::TransformsOf(tile).r;
  const bool plain = s.stride_h == 1 && s.stride_w == 1 && s.dilation_h == 1 && s.dilation_w == 1;
  const bool sizes = s.images > 0 && s.in_channels > 0 && s.out_channels > 0 && s.groups > 0 &&
                     s.in_h > 0 && s.in_w > 0 && s.out_h > 0 && s.out_w > 0 && s.pad_h >= 0 &&
                     s.pad_w >= 0 && s.out_h == s.in_h + 2 * s.pad_h - r + 1 &&
                     s.out_w == s.in_w + 2 * s.pad_w - r + 1 &&
                     std::max({s.images, s.in_h + s.pad_h, s.in_w + s.pad_w, s.out_h, s.out_w}) <
                         std::numeric_limits<int32_t>::max();
  const int64_t granule = s.groups > 1 ? 8 : 1;
  return plain && sizes && s.kernel_h == r && s.kernel_w == r &&
         s.in_channels % (s.groups * granule) == 0 && s.out_channels % (s.groups * granule) == 0;
}

WinogradConvolution::WinogradConvolution(const ConvolutionShape& shape, WinogradTile tile) {
  Ensure(Supports(shape, tile), "Winograd's algorithm cannot do this convolution");
  algorithm_ = std::make_unique<const winograd::Algorithm>(shape, winograd::TransformsOf(tile));
}
WinogradConvolution::~WinogradConvolution() = default;
WinogradConvolution::WinogradConvolution(WinogradConvolution&&) noexcept = default;
WinogradConvolution& WinogradConvolution::operator=(WinogradConvolution&&) noexcept = default;

size_t WinogradConvolution::ScratchBytes(int threads) const {
  return sizeof(float) * std::max({algorithm_->forward.ScratchFloats(threads),
                                   algorithm_->adjoint_data.Pays()
                                       ? algorithm_->adjoint_data.ScratchFloats(threads)
                                       : algorithm_->backward_data.ScratchFloats(threads),
                                   algorithm_->backward_weights.ScratchFloats(threads)});
}

void WinogradConvolution::Forward(int threads, const float* src, const float* weights,
                                  const float* bias, bool relu, float* dst, void* scratch) const {
  algorithm_->forward.Run(threads, src, weights, bias,
                          relu ? 0 : -std::numeric_limits<float>::infinity(), dst,
                          static_cast<float*>(scratch));
}

void WinogradConvolution::BackwardData(int threads, const float* d_dst, const float* weights,
                                       float* d_src, void* scratch) const {
  if (algorithm_->adjoint_data.Pays()) {
    algorithm_->adjoint_data.Run(threads, d_dst, weights, d_src, static_cast<float*>(scratch));
    return;
  }
  algorithm_->backward_data.Run(threads, d_dst, weights, nullptr,
                                -std::numeric_limits<float>::infinity(), d_src,
                                static_cast<float*>(scratch));
}

void WinogradConvolution::BackwardWeights(int threads, const float* src, const float* d_dst,
                                          float* d_weights, void* scratch) const {
  algorithm_->backward_weights.Run(threads, src, d_dst, d_weights, static_cast<float*>(scratch));
}

}  // namespace carafe
