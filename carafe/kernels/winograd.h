// Winograd's minimal filtering for 3x3 and 5x5 convolutions on the CPU, in float. An m x m tile of
// the output costs (m+r-1)^2 multiplications per pair of channels instead of (m r)^2:
//   dst tile = A^T [ sum over in channels of (G g G^T) * (B^T d B) ] A,   * element by element.
// F(4x4,3x3) saves a factor of 4, F(2x2,3x3) 2.25, F(2x2,5x5) 2.78, F(4x4,5x5) 6.25, at the price
// of rounding errors (docs/decisions/0030-winograd.md has the bounds).
#pragma once

#include <cstddef>
#include <memory>

#include "carafe/kernels/convolution_shape.h"

namespace carafe {

enum class WinogradTile { kF4x4_3x3, kF2x2_3x3, kF2x2_5x5, kF4x4_5x5 };

namespace winograd {
class Algorithm;
}

// Images are nChw8c: (images, ceil(channels / 8), h, w, 8), the channels past the last being 0.
// Weights and their gradients are plain OIHW. Immutable, so any number of threads may call it, each
// with scratch of its own. The results do not depend on the number of threads, not in one bit.
class WinogradConvolution {
 public:
  // Stride 1, dilation 1, a kernel of the tile's size; any number of channels if there is one
  // group, groups of a multiple of 8 channels in and out otherwise; any pad.
  static bool Supports(const ConvolutionShape& shape, WinogradTile tile);

  // Throws InternalError if the shape is not supported.
  WinogradConvolution(const ConvolutionShape& shape, WinogradTile tile);
  ~WinogradConvolution();
  WinogradConvolution(WinogradConvolution&&) noexcept;
  WinogradConvolution& operator=(WinogradConvolution&&) noexcept;

  // What any of the three needs with at most so many threads. Scratch is aligned to 64 bytes, keeps
  // nothing between calls, and may be shared by all convolutions that run one after the other.
  size_t ScratchBytes(int threads) const;

  // dst = src * weights + bias, then max(0, .) if `relu`. `bias` (out_channels values) may be null.
  // The channels of dst past the last become 0.
  void Forward(int threads, const float* src, const float* weights, const float* bias, bool relu,
               float* dst, void* scratch) const;
  // d_src = the gradient of the sum of dst d_dst. Overwrites; the channels past the last become 0.
  void BackwardData(int threads, const float* d_dst, const float* weights, float* d_src,
                    void* scratch) const;
  // d_weights += the gradient with respect to the weights.
  void BackwardWeights(int threads, const float* src, const float* d_dst, float* d_weights,
                       void* scratch) const;

 private:
  std::unique_ptr<const winograd::Algorithm> algorithm_;
};

}  // namespace carafe
