// The memory of one virtual device: a range of addresses without access rights, which are granted
// while one of its kernels or copies runs (Window). A load or store of host code in between is
// reported and ends the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace carafe::vgpu {

// Bytes of memory that nobody has written: not-a-number as float and as double.
constexpr int kPoison = 0xff;

// Not thread-safe: the scheduler's lock guards it.
class DeviceMemory {
 public:
  DeviceMemory(int device, size_t limit);  // lives as long as the process

  // Poisoned; null if the limit would be exceeded.
  void* Allocate(size_t bytes);
  // Poisons it; dies unless `memory` is an allocation whose neighbourhood is untouched.
  void Free(void* memory);

  bool Contains(const void* address) const;
  // Dies unless [memory, memory + bytes) lies in one allocation.
  void CheckRange(const void* memory, size_t bytes, const char* what) const;
  size_t used() const { return used_; }
  size_t limit() const { return limit_; }
  // "byte 8 of an allocation of 64 bytes on device 0"
  std::string Describe(const void* address) const;

  // Grants access to all that was ever allocated. Windows may nest.
  class Window {
   public:
    explicit Window(DeviceMemory& memory);
    ~Window();
    Window(const Window&) = delete;
    Window& operator=(const Window&) = delete;

   private:
    DeviceMemory& memory_;
  };

 private:
  static constexpr size_t kAddresses = size_t{16} << 30;
  static constexpr size_t kAlign = 256;  // as cudaMalloc
  static constexpr size_t kGuard = 256;  // bytes behind each allocation that must stay as they are

  size_t TakeFree(size_t bytes);
  void SetAccess(int rights);

  const int device_;
  const size_t limit_;
  char* base_ = nullptr;
  size_t end_ = 0;  // of what was ever allocated, from base_, in whole pages
  size_t used_ = 0;
  int windows_ = 0;                // open now
  std::map<size_t, size_t> live_;  // offset -> bytes asked for
  std::map<size_t, size_t> free_;  // offset -> bytes; poisoned
};

}  // namespace carafe::vgpu
