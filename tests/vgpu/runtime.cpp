// The CUDA runtime: devices, streams, events and errors.
#include <fmt/format.h>

#include <cstring>

#include "tests/vgpu/calls.h"
#include "tests/vgpu/ignore.h"
#include "tests/vgpu/report.h"

using namespace carafe::vgpu;  // NOLINT: CUDA's functions are global

namespace {

thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;

}  // namespace

struct CUevent_st {
  VirtualDevice* device = nullptr;  // current when it was made
  Queue* queue = nullptr;           // where it was recorded
  std::shared_ptr<Marker> marker;
};

namespace carafe::vgpu {

cudaError_t Keep(cudaError_t status) {
  if (status != cudaSuccess) last_error = status;
  return status;
}

VirtualDevice& CurrentDevice() { return Scheduler::Get().device(current_device); }

Queue& QueueOf(cudaStream_t stream, const char* what) {
  auto* queue = reinterpret_cast<Queue*>(stream);
  if (queue == nullptr) Die(fmt::format("{} in the default stream: pass a stream", what));
  if (!Scheduler::Get().IsQueue(queue))
    Die(fmt::format("{} in no stream, or a destroyed one", what));
  return *queue;
}

void CheckHost(const void* memory, const char* what) {
  Scheduler& scheduler = Scheduler::Get();
  for (int i = 0; i < scheduler.num_devices(); ++i) {
    const DeviceMemory& device = scheduler.device(i).memory;
    if (device.Contains(memory)) {
      Die(fmt::format("{}: host memory is expected, not {}", what, device.Describe(memory)));
    }
  }
}

}  // namespace carafe::vgpu

extern "C" {

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorECCUncorrectable:
      return "uncorrectable ECC error encountered";
    case cudaErrorDevicesUnavailable:
      return "CUDA-capable device(s) is/are busy or unavailable";
    default:
      return "unknown error";
  }
}

cudaError_t cudaGetLastError() {
  CARAFE_VGPU_MAY_IGNORE();
  const auto lock = Scheduler::Get().Lock();
  const cudaError_t status = last_error;
  last_error = CurrentDevice().broken;  // such errors stay
  return status;
}

cudaError_t cudaGetDeviceCount(int* count) {
  Scheduler& scheduler = Scheduler::Get();
  const auto lock = scheduler.Lock();
  if (scheduler.faults().no_driver()) return cudaErrorInsufficientDriver;  // *count stays
  if (scheduler.num_devices() == 0) return cudaErrorNoDevice;
  *count = scheduler.num_devices();
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int index) {
  Scheduler& scheduler = Scheduler::Get();
  const auto lock = scheduler.Lock();
  if (index < 0 || index >= scheduler.num_devices()) return Keep(cudaErrorInvalidDevice);
  *properties = {};
  std::strncpy(properties->name, "Carafe virtual GPU, a test bed on the CPU",
               sizeof properties->name - 1);
  properties->totalGlobalMem = scheduler.device(index).memory.limit();
  properties->major = 7;
  properties->minor = 5;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int index) {
  CARAFE_VGPU_MAY_IGNORE();
  Scheduler& scheduler = Scheduler::Get();
  const auto lock = scheduler.Lock();
  if (index < 0 || index >= scheduler.num_devices()) return Keep(cudaErrorInvalidDevice);
  current_device = index;
  return Keep(CurrentDevice().broken);
}

cudaError_t cudaDeviceSynchronize() {
  CARAFE_VGPU_MAY_IGNORE();
  Scheduler& scheduler = Scheduler::Get();
  const auto lock = scheduler.Lock();
  return Keep(scheduler.FinishAll(CurrentDevice()));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  Scheduler& scheduler = Scheduler::Get();
  const auto lock = scheduler.Lock();
  if (flags != cudaStreamNonBlocking) Die("a stream that waits for the default stream");
  VirtualDevice& device = CurrentDevice();
  if (device.broken != cudaSuccess) return Keep(device.broken);
  *stream = reinterpret_cast<cudaStream_t>(scheduler.AddQueue(device));
  return cudaSuccess;
}

// CUDA runs what is queued and returns at once; here it runs now.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Scheduler& scheduler = Scheduler::Get();
  const auto lock = scheduler.Lock();
  Queue& queue = QueueOf(stream, "cudaStreamDestroy");
  const cudaError_t status = scheduler.Finish(queue, nullptr);
  scheduler.RemoveQueue(&queue);
  return Keep(status);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  CARAFE_VGPU_MAY_IGNORE();
  Scheduler& scheduler = Scheduler::Get();
  const auto lock = scheduler.Lock();
  return Keep(scheduler.Finish(QueueOf(stream, "cudaStreamSynchronize"), nullptr));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  const auto lock = Scheduler::Get().Lock();
  *event = new CUevent_st;
  (*event)->device = &CurrentDevice();
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  CARAFE_VGPU_MAY_IGNORE();
  Scheduler& scheduler = Scheduler::Get();
  const auto lock = scheduler.Lock();
  Queue& queue = QueueOf(stream, "cudaEventRecord");
  if (queue.device->broken != cudaSuccess) return Keep(queue.device->broken);
  if (event->device != queue.device) return Keep(cudaErrorInvalidResourceHandle);
  event->queue = &queue;
  event->marker = std::make_shared<Marker>();
  scheduler.Add(queue, {"an event", nullptr, event->marker});
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  CARAFE_VGPU_MAY_IGNORE();
  Scheduler& scheduler = Scheduler::Get();
  const auto lock = scheduler.Lock();
  if (event->marker == nullptr || event->marker->done) return cudaSuccess;  // as CUDA does
  if (!scheduler.IsQueue(event->queue)) Die("the host waits for an event of a destroyed stream");
  return Keep(scheduler.Finish(*event->queue, event->marker.get()));
}

}  // extern "C"
