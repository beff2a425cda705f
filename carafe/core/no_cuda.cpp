// Stands in for core/cuda_*.cpp in a build without CUDA.
#include "carafe/base/error.h"
#include "carafe/core/device.h"
#include "carafe/core/gpu_status.h"
#include "carafe/core/page_locked.h"

namespace carafe {

int CudaDeviceCount() { return 0; }

GpuStatus GetGpuStatus() {
  return {"this Carafe was built without CUDA, so there is no GPU to use",
          "omit --gpu, or build with: cmake --preset cuda"};
}

Device& CudaDevice(int) {
  const GpuStatus status = GetGpuStatus();
  throw ConfigError(status.problem, status.fix);
}

void* AllocatePageLocked(size_t bytes) { return CpuDevice().Allocate(bytes == 0 ? 1 : bytes); }

void FreePageLocked(void* memory) noexcept { CpuDevice().Free(memory); }

}  // namespace carafe
