// What the files that call CUDA's libraries share: errors with a remedy, and the current device of
// a thread. CUDA and virtual-GPU builds only; includes no header of CUDA.
#pragma once

#include <cstddef>

#include "carafe/core/stream.h"

namespace carafe {

// Throws DataError unless `status`, a cudaError_t, is cudaSuccess. `device` is -1 if unknown,
// `bytes` what an allocation asked for.
void CheckCuda(int status, const char* doing, int device = -1, size_t bytes = 0);

// Makes the stream's device the calling thread's: CUDA refuses launches into a stream of another.
// Returns its index.
int UseDeviceOf(const Stream& stream);

// Throws if the launch before it was refused.
void CheckLaunch(const Stream& stream);

}  // namespace carafe
