// What the entry points share. Each locks the scheduler first, and its status is kept for
// cudaGetLastError, as CUDA does.
#pragma once

#include <cuda_runtime_api.h>

#include "tests/vgpu/scheduler.h"

namespace carafe::vgpu {

cudaError_t Keep(cudaError_t status);  // for cudaGetLastError of this thread; returns it

VirtualDevice& CurrentDevice();  // of this thread

// The stream's queue. Dies for the default stream, which Carafe does not use, and for one that was
// destroyed.
Queue& QueueOf(cudaStream_t stream, const char* what);

// Dies unless the memory is host memory: no device's.
void CheckHost(const void* memory, const char* what);

}  // namespace carafe::vgpu
