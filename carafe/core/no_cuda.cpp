// Stands in for cuda_device.cpp in a build without CUDA.
#include "carafe/base/error.h"
#include "carafe/core/device.h"

namespace carafe {

int CudaDeviceCount() { return 0; }

Device& CudaDevice(int) {
  throw ConfigError("this Carafe was built without CUDA, so there is no GPU to use",
                    "leave --gpu away, or build with: cmake --preset cuda");
}

}  // namespace carafe
