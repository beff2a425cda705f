// The CPU as a Device: aligned host memory; every operation is done when the call returns.
#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "carafe/base/error.h"
#include "carafe/core/device.h"
#include "carafe/core/shareable_memory.h"

namespace carafe {
namespace {

constexpr size_t kAlignment = 64;  // a cache line, and the widest vector
constexpr size_t kHugePage = size_t{2} << 20;

char* AlignUp(char* memory, size_t alignment) {
  const size_t past = reinterpret_cast<uintptr_t>(memory) % alignment;
  return past == 0 ? memory : memory + (alignment - past);
}

class Cpu final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::kCpu; }
  std::string name() const override { return "CPU"; }
  // calloc, not memset: pages of a large piece come from the kernel as zeros when they are first
  // touched, by the thread that uses them, and not at all if nobody does (gradients of a deployed
  // net). Before the piece lies the pointer that free() wants. A large piece begins on a border of
  // huge pages and asks for as many as it fills: fewer faults and fewer misses of the TLB. Only a
  // wish: kernels may not know it.
  void* Allocate(size_t bytes) override {
    if (bytes == 0) return nullptr;
    const size_t alignment = bytes >= kHugePage ? kHugePage : kAlignment;
    const size_t all = bytes + alignment + kAlignment;  // a vector may be read past the end
    char* const start = all < bytes ? nullptr : static_cast<char*>(std::calloc(all, 1));
    if (start == nullptr) {
      throw DataError("memory", -1, fmt::format("{} bytes are not to be had", bytes),
                      "use a smaller batch or a smaller net");
    }
    char* const memory = AlignUp(start + sizeof(start), alignment);
    std::memcpy(memory - sizeof(start), &start, sizeof(start));
    if (bytes >= kHugePage) madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
    return memory;
  }
  // Null before the piece says that it is shareable.
  void* AllocateShareable(size_t bytes) override {
    void* const memory = bytes == 0 ? nullptr : carafe::AllocateShareable(bytes);
    return memory == nullptr ? Allocate(bytes) : memory;
  }
  void Free(void* memory) noexcept override {
    if (memory == nullptr) return;
    void* start = nullptr;
    std::memcpy(&start, static_cast<char*>(memory) - sizeof(start), sizeof(start));
    if (start == nullptr) return FreeShareable(memory);
    std::free(start);
  }
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
