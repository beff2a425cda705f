// Where memory lies and work runs. The CPU is always there; CUDA devices come from cuda_device.cpp
// in a CUDA build, and from no_cuda.cpp (which refuses, with the remedy) otherwise.
#pragma once

#include <cstddef>
#include <string>

namespace carafe {

enum class DeviceKind { kCpu, kCuda };

// Stateless but for its index; safe from any thread. Streams are opaque handles, null on the CPU.
class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  virtual std::string name() const = 0;  // "CPU", "GPU 0 (…)"
  // 64-byte aligned and zeroed. Throws DataError("out of memory") with the size asked for.
  virtual void* Allocate(size_t bytes) = 0;
  // The same, where other processes can map it if the system allows that (shareable_memory.h).
  virtual void* AllocateShareable(size_t bytes) { return Allocate(bytes); }
  virtual void Free(void* memory) noexcept = 0;  // of either
  virtual void* CreateStream() = 0;
  virtual void DestroyStream(void* stream) noexcept = 0;
  virtual void Synchronize(void* stream) = 0;
  // Copies and fills are ordered in the stream; CopyToHost and CopyFromHost return when the host
  // side is free again.
  virtual void CopyToHost(void* stream, void* host, const void* device, size_t bytes) = 0;
  virtual void CopyFromHost(void* stream, void* device, const void* host, size_t bytes) = 0;
  virtual void Copy(void* stream, void* to, const void* from, size_t bytes) = 0;
  virtual void Zero(void* stream, void* memory, size_t bytes) = 0;
};

Device& CpuDevice();
int CudaDeviceCount();          // 0 without a driver, without a GPU, or in a build without CUDA
Device& CudaDevice(int index);  // throws ConfigError when there is no such device

}  // namespace carafe
