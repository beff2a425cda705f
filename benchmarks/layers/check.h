// Compares results with the definition of a convolution, in double, at some random places.
#pragma once

#include "carafe/kernels/convolution_shape.h"

namespace carafe::benchmark {

struct Errors {  // largest difference / largest value
  double forward = 0, backward_data = 0, backward_weights = 0;
};

// Images are nChw8c with channels that are a multiple of 8, weights plain.
Errors Check(const ConvolutionShape& shape, const float* src, const float* weights,
             const float* d_dst, const float* dst, const float* d_src, const float* d_weights);

}  // namespace carafe::benchmark
