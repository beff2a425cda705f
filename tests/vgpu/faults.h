// Failures by table: names with the number of the event at which they happen, with commas.
//
//   no_driver  cudaGetDeviceCount says that the driver is missing
//   oom@N      the N-th allocation of device memory is refused
//   ecc@N      the N-th operation that a device executes ends in an uncorrectable memory error,
//   lost@N     or the device is lost: every later call on that device returns the same error
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

namespace carafe::vgpu {

class Faults {
 public:
  // Dies if the table cannot be read.
  explicit Faults(const std::string& table);

  bool no_driver() const { return no_driver_; }
  bool NextAllocationFails() { return ++allocations_ == oom_; }
  cudaError_t NextOperation();  // what it ends in

 private:
  bool no_driver_ = false;
  int64_t oom_ = 0, ecc_ = 0, lost_ = 0;  // 0: never
  int64_t allocations_ = 0, operations_ = 0;
};

}  // namespace carafe::vgpu
