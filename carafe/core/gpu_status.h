// Why there is no GPU to use, for messages.
#pragma once

#include <string>

namespace carafe {

struct GpuStatus {
  std::string problem;  // empty: there are GPUs
  std::string fix;
};

GpuStatus GetGpuStatus();  // from cuda_device.cpp or no_cuda.cpp

}  // namespace carafe
