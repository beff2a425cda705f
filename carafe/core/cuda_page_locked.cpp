#include <cuda_runtime_api.h>

#include <cstring>

#include "carafe/core/cuda_runtime.h"
#include "carafe/core/page_locked.h"

namespace carafe {

void* AllocatePageLocked(size_t bytes) {
  if (CudaDeviceCount() == 0) return CpuDevice().Allocate(bytes == 0 ? 1 : bytes);
  void* memory = nullptr;
  // For all devices, whichever is the thread's.
  CheckCuda(cudaHostAlloc(&memory, bytes == 0 ? 1 : bytes, cudaHostAllocPortable),
            "allocating page-locked memory", -1, bytes);
  std::memset(memory, 0, bytes);
  return memory;
}

void FreePageLocked(void* memory) noexcept {
  if (CudaDeviceCount() == 0) return CpuDevice().Free(memory);
  cudaFreeHost(memory);
}

}  // namespace carafe
