// The CPU as a Device: aligned host memory; every operation is done when the call returns.
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "carafe/base/error.h"
#include "carafe/core/device.h"

namespace carafe {
namespace {

constexpr size_t kAlignment = 64;  // a cache line, and the widest vector

class Cpu final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::kCpu; }
  std::string name() const override { return "CPU"; }
  void* Allocate(size_t bytes) override {
    const size_t padded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    void* memory = padded < bytes ? nullptr : std::aligned_alloc(kAlignment, padded);
    if (memory == nullptr && bytes > 0) {
      throw DataError("memory", -1, fmt::format("{} bytes are not to be had", bytes),
                      "use a smaller batch or a smaller net");
    }
    if (memory != nullptr) std::memset(memory, 0, padded);
    return memory;
  }
  void Free(void* memory) noexcept override { std::free(memory); }
  void* CreateStream() override { return nullptr; }
  void DestroyStream(void*) noexcept override {}
  void Synchronize(void*) override {}
  void CopyToHost(void*, void* host, const void* device, size_t bytes) override {
    Move(host, device, bytes);
  }
  void CopyFromHost(void*, void* device, const void* host, size_t bytes) override {
    Move(device, host, bytes);
  }
  void Copy(void*, void* to, const void* from, size_t bytes) override { Move(to, from, bytes); }
  void Zero(void*, void* memory, size_t bytes) override {
    if (bytes > 0) std::memset(memory, 0, bytes);
  }

 private:
  static void Move(void* to, const void* from, size_t bytes) {
    if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
  }
};

}  // namespace

Device& CpuDevice() {
  static Cpu cpu;
  return cpu;
}

}  // namespace carafe
