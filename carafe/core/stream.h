// An ordered queue of work on one device, with the number of CPU threads that its kernels may use.
// Passed to every kernel; used by one thread at a time.
#pragma once

#include <cstddef>
#include <span>

#include "carafe/core/device.h"

namespace carafe {

class Stream {
 public:
  explicit Stream(Device& device = CpuDevice(), int threads = 1)
      : device_(device), threads_(threads), native_(device.CreateStream()) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { device_.DestroyStream(native_); }

  Device& device() const { return device_; }
  bool on_cpu() const { return device_.kind() == DeviceKind::kCpu; }
  int threads() const { return threads_; }
  void* native() const { return native_; }  // cudaStream_t, or null
  void Synchronize() { device_.Synchronize(native_); }

  template <typename T>
  void CopyToHost(std::span<T> host, const T* device) {
    device_.CopyToHost(native_, host.data(), device, host.size_bytes());
  }
  template <typename T>
  void CopyFromHost(T* device, std::span<const T> host) {
    device_.CopyFromHost(native_, device, host.data(), host.size_bytes());
  }
  template <typename T>
  void Copy(T* to, const T* from, size_t count) {
    device_.Copy(native_, to, from, count * sizeof(T));
  }
  template <typename T>
  void Zero(T* memory, size_t count) {
    device_.Zero(native_, memory, count * sizeof(T));
  }

 private:
  Device& device_;
  const int threads_;
  void* const native_;
};

}  // namespace carafe
