// oneDNN's direct convolution on the CPU, in float. A build without oneDNN has no_dnnl.cpp instead,
// in which no shape is supported.
#pragma once

#include <cstddef>
#include <memory>

#include "carafe/core/format.h"
#include "carafe/kernels/convolution_shape.h"

namespace carafe {

enum class ConvolutionDirection { kForward, kBackwardData, kBackwardWeights };

// Weights and their gradients are plain OIHW and are reordered in each call: the solver, the
// exchange and files see one format only. Destinations are nChw8c; the source as source_format()
// says. Used by one thread at a time; what it is told of threads must not change.
class DnnlConvolution {
 public:
  // Null where oneDNN has nothing better than a reference implementation for the shape. Group
  // channels must be multiples of 8, or 1 (depthwise).
  static std::unique_ptr<DnnlConvolution> Make(const ConvolutionShape& shape, int threads);

  virtual ~DnnlConvolution() = default;
  virtual Format source_format() const = 0;  // plain if there are fewer channels than in a block
  // Whether a direction can be had; the first call makes its primitive.
  virtual bool Has(ConvolutionDirection direction) = 0;
  // What the direction needs, aligned to 64 bytes; nothing is kept there between calls.
  virtual size_t ScratchBytes(ConvolutionDirection direction) = 0;

  // dst = src * weights + bias, which may be null. (Its own ReLU would turn NaN into 0.)
  virtual void Forward(const float* src, const float* weights, const float* bias, float* dst,
                       void* scratch) = 0;
  // Overwrites d_src.
  virtual void BackwardData(const float* d_dst, const float* weights, float* d_src,
                            void* scratch) = 0;
  // Adds to d_weights.
  virtual void BackwardWeights(const float* src, const float* d_dst, float* d_weights,
                               void* scratch) = 0;
};

}  // namespace carafe
