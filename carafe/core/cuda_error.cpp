#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <string>

#include "carafe/base/error.h"
#include "carafe/core/cuda_runtime.h"

namespace carafe {
namespace {

std::string FixFor(cudaError_t status) {
  switch (status) {
    case cudaErrorMemoryAllocation:
      return "use a smaller batch_size (with iter_size for the same result), a GPU with more "
             "memory, or one that no other program uses";
    case cudaErrorECCUncorrectable:
      return "the GPU's memory is faulty: see nvidia-smi -q -d ECC, reset the GPU or use another, "
             "and resume with --snapshot=auto";
    case cudaErrorDevicesUnavailable:
    case cudaErrorUnknown:
      return "the GPU does not respond: see nvidia-smi and the kernel's log, reset the GPU or use "
             "another, and resume with --snapshot=auto";
    case cudaErrorInsufficientDriver:
      return "install or update NVIDIA's driver (CUDA 13 needs 580 or newer)";
    default:
      return "see nvidia-smi for the state of the device";
  }
}

}  // namespace

void CheckCuda(int status, const char* doing, int device, size_t bytes) {
  const auto error = static_cast<cudaError_t>(status);
  if (error == cudaSuccess) return;
  cudaGetLastError();  // else the next launch would report this error again
  const std::string where = device < 0 ? "GPU" : fmt::format("GPU {}", device);
  const std::string size = bytes == 0 ? "" : fmt::format(" ({} bytes)", bytes);
  throw DataError(where, -1, fmt::format("{}{}: {}", doing, size, cudaGetErrorString(error)),
                  FixFor(error));
}

}  // namespace carafe
