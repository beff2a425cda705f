// The CUDA runtime: memory, copies and fills. A copy reads its source when it runs, not when it is
// queued, whatever kind of memory that is.
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <map>

#include "tests/vgpu/calls.h"
#include "tests/vgpu/ignore.h"
#include "tests/vgpu/report.h"

using namespace carafe::vgpu;  // NOLINT: CUDA's functions are global

namespace {

std::map<void*, size_t>& PageLocked() {
  static auto& memory = *new std::map<void*, size_t>;
  return memory;
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  Scheduler& scheduler = Scheduler::Get();
  const auto lock = scheduler.Lock();
  VirtualDevice& device = CurrentDevice();
  if (device.broken != cudaSuccess) return Keep(device.broken);
  void* allocated =
      scheduler.faults().NextAllocationFails() ? nullptr : device.memory.Allocate(bytes);
  if (allocated == nullptr) return Keep(cudaErrorMemoryAllocation);
  ++scheduler.counts().allocations;
  scheduler.counts().bytes += static_cast<int64_t>(bytes);
  *memory = allocated;
  return cudaSuccess;
}

// Of any device. At once: unlike today's drivers it does not wait for work that still uses the
// memory.
cudaError_t cudaFree(void* memory) {
  Scheduler& scheduler = Scheduler::Get();
  const auto lock = scheduler.Lock();
  if (memory == nullptr) return cudaSuccess;
  int owner = 0;
  while (owner + 1 < scheduler.num_devices() && !scheduler.device(owner).memory.Contains(memory)) {
    ++owner;
  }
  VirtualDevice& device = scheduler.device(owner);
  const size_t before = device.memory.used();
  device.memory.Free(memory);
  scheduler.counts().bytes -= static_cast<int64_t>(before - device.memory.used());
  return Keep(device.broken);
}

cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  Scheduler& scheduler = Scheduler::Get();
  const auto lock = scheduler.Lock();
  if (CurrentDevice().broken != cudaSuccess) return Keep(CurrentDevice().broken);
  *memory = std::malloc(bytes);
  if (*memory == nullptr) return Keep(cudaErrorMemoryAllocation);
  std::memset(*memory, kPoison, bytes);
  PageLocked()[*memory] = bytes;
  scheduler.counts().host_bytes += static_cast<int64_t>(bytes);
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* memory) {
  Scheduler& scheduler = Scheduler::Get();
  const auto lock = scheduler.Lock();
  const auto found = PageLocked().find(memory);
  if (found == PageLocked().end()) Die("cudaFreeHost of what is no page-locked memory");
  std::memset(memory, kPoison, found->second);  // for copies that read it too late
  scheduler.counts().host_bytes -= static_cast<int64_t>(found->second);
  PageLocked().erase(found);
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  CARAFE_VGPU_MAY_IGNORE();
  Scheduler& scheduler = Scheduler::Get();
  const auto lock = scheduler.Lock();
  Queue& queue = QueueOf(stream, "cudaMemcpyAsync");
  VirtualDevice& device = *queue.device;
  if (device.broken != cudaSuccess) return Keep(device.broken);
  if (kind == cudaMemcpyHostToDevice) {
    CheckHost(from, "a copy to the device");
  } else {
    device.memory.CheckRange(from, bytes, "a copy from the device");
  }
  if (kind == cudaMemcpyDeviceToHost) {
    CheckHost(to, "a copy to the host");
  } else {
    device.memory.CheckRange(to, bytes, "a copy to the device");
  }
  ++scheduler.counts().copies;
  scheduler.Add(queue, {"a copy", [=] { std::memcpy(to, from, bytes); }, nullptr});
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  CARAFE_VGPU_MAY_IGNORE();
  Scheduler& scheduler = Scheduler::Get();
  const auto lock = scheduler.Lock();
  Queue& queue = QueueOf(stream, "cudaMemsetAsync");
  VirtualDevice& device = *queue.device;
  if (device.broken != cudaSuccess) return Keep(device.broken);
  // CUDA's documentation promises it for copies only.
  if (&device != &CurrentDevice()) return Keep(cudaErrorInvalidResourceHandle);
  device.memory.CheckRange(memory, bytes, "cudaMemsetAsync");
  ++scheduler.counts().clears;
  scheduler.Add(queue, {"a fill", [=] { std::memset(memory, value, bytes); }, nullptr});
  return cudaSuccess;
}

}  // extern "C"
