// The convolutions that are measured: the 3x3 and 5x5 layers of the nets that benchmarks/run
// trains.
#pragma once

#include <string>
#include <vector>

#include "carafe/kernels/convolution_shape.h"

namespace carafe::benchmark {

struct NamedShape {
  std::string name;
  ConvolutionShape shape;
};

// Those whose name contains `filter`.
std::vector<NamedShape> Shapes(const std::string& filter);

}  // namespace carafe::benchmark
