// What tests ask of the virtual GPU beyond CUDA's own functions.
//
// Environment: CARAFE_VGPU_DEVICES (8), CARAFE_VGPU_MEMORY_MB (4096, per device),
// CARAFE_VGPU_SEED (1; 0: work runs only when the host waits for it), CARAFE_VGPU_FAULTS
// (faults.h).
#pragma once

#include <cstdint>
#include <string>

namespace carafe::vgpu {

// Numbers since the process started, of all devices.
struct Counts {
  int64_t launches = 0;     // kernels and matrix products
  int64_t copies = 0;       // in either direction, and on the device
  int64_t clears = 0;       // cudaMemsetAsync
  int64_t waits = 0;        // of the host, for a stream, an event or a device, with work to do
  int64_t allocations = 0;  // of device memory
  int64_t bytes = 0;        // of device memory, allocated now
  int64_t host_bytes = 0;   // page-locked, allocated now
};
Counts GetCounts();

void SetSeed(uint64_t seed);
// As CARAFE_VGPU_FAULTS. Counts start at 1 again, and devices that were broken work again.
void SetFaults(const std::string& table);

}  // namespace carafe::vgpu
