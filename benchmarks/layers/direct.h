// The opponent: oneDNN's direct convolution, in the formats that it likes best.
#pragma once

#include <memory>

#include "carafe/kernels/convolution_shape.h"

namespace carafe::benchmark {

// Images and gradients are nChw8c, weights plain; Set* reorders them, outside of what is timed.
class Direct {
 public:
  virtual ~Direct() = default;
  virtual void Set(const float* src, const float* weights, const float* d_dst) = 0;
  virtual void Forward() = 0;
  virtual void BackwardData() = 0;
  virtual void BackwardWeights() = 0;
  virtual void Get(float* dst, float* d_src, float* d_weights) = 0;
};

// Null where this build has no oneDNN.
std::unique_ptr<Direct> MakeDirect(const ConvolutionShape& shape);

}  // namespace carafe::benchmark
