// What a layer with several algorithms says about them: see Layer::Ways.
#pragma once

#include <string>

#include "carafe/kernels/convolution_algorithms.h"

namespace carafe {

// One way of computing one direction, for `--plan=explain`.
struct PlannedWay {
  std::string direction, algorithm, formats;  // formats: "plain -> blocked8"
  bool chosen = false;
  size_t scratch_bytes = 0;
  double seconds = 0;  // 0: not measured
};

}  // namespace carafe
