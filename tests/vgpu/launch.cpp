// Kernels (carafe/kernels/launch.h): the functor is kept as bytes and run for all indices, forwards
// or backwards, when the stream gets there.
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "tests/vgpu/calls.h"
#include "tests/vgpu/report.h"

using namespace carafe::vgpu;  // NOLINT: CUDA's functions are global

namespace {

bool IsMapped(uintptr_t address) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  unsigned char resident = 0;
  return mincore(reinterpret_cast<void*>(address / page * page), page, &resident) == 0;
}

// A GPU cannot follow an address of host memory. Any aligned word of the functor that is the
// address of something and not of this device's memory ends the process.
void CheckPointers(const VirtualDevice& device, const char* name, const void* functor,
                   size_t bytes) {
  constexpr uintptr_t kLowest = uintptr_t{0x5000} << 32, kHighest = uintptr_t{0x7fff} << 32;
  for (size_t at = 0; at + sizeof(uintptr_t) <= bytes; at += sizeof(uintptr_t)) {
    uintptr_t word = 0;
    std::memcpy(&word, static_cast<const char*>(functor) + at, sizeof word);
    if (word < kLowest || word > kHighest + UINT32_MAX) continue;
    const void* address = reinterpret_cast<const void*>(word);
    if (device.memory.Contains(address) || !IsMapped(word)) continue;
    Die(
        fmt::format("{}: byte {} of the functor is the address {}, which is not in the memory of "
                    "device {}",
                    name, at, address, device.index));
  }
}

}  // namespace

extern "C" void carafe_vgpu_launch(void* stream, const char* name,
                                   void (*kernel)(const void*, int64_t, int64_t, int64_t),
                                   const void* functor, size_t bytes, int64_t n) {
  Scheduler& scheduler = Scheduler::Get();
  const auto lock = scheduler.Lock();
  Queue& queue = QueueOf(static_cast<cudaStream_t>(stream), name);
  if (queue.device->broken != cudaSuccess) {
    Keep(queue.device->broken);
    return;
  }
  if (queue.device != &CurrentDevice()) {
    Keep(cudaErrorInvalidResourceHandle);
    return;
  }
  CheckPointers(*queue.device, name, functor, bytes);
  ++scheduler.counts().launches;
  // Aligned for any functor, and alive until the kernel has run.
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> copy((bytes + sizeof(Line) - 1) / sizeof(Line));
  std::memcpy(copy.data(), functor, bytes);
  const bool backwards = scheduler.Chance(2);
  scheduler.Add(queue, {name,
                        [=, copy = std::move(copy)] {
                          if (backwards) {
                            kernel(copy.data(), n - 1, -1, -1);
                          } else {
                            kernel(copy.data(), 0, n, 1);
                          }
                        },
                        nullptr});
}
