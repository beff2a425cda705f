// CUDA devices; compiled in CUDA builds only. A machine without a driver has none, and the CPU
// still works.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/core/cuda_runtime.h"
#include "carafe/core/cuda_upload.h"
#include "carafe/core/device.h"
#include "carafe/core/gpu_status.h"

namespace carafe {
namespace {

cudaStream_t Native(void* stream) { return static_cast<cudaStream_t>(stream); }

class Cuda final : public Device {
 public:
  Cuda(int index, std::string name) : index_(index), name_(std::move(name)) {}
  DeviceKind kind() const override { return DeviceKind::kCuda; }
  std::string name() const override { return fmt::format("GPU {} ({})", index_, name_); }

  // Whatever stream uses the memory next finds it zeroed: the host waits for that. Nets allocate
  // when they are built, not in a training step.
  void* Allocate(size_t bytes) override {
    Use();
    const cudaStream_t clearing = ClearingStream();
    void* memory = nullptr;
    Check(cudaMalloc(&memory, bytes), "allocating memory", bytes);
    const cudaError_t status = cudaMemsetAsync(memory, 0, bytes, clearing);
    if (status != cudaSuccess) cudaFree(memory);
    Check(status, "clearing memory");
    Check(cudaStreamSynchronize(clearing), "clearing memory");
    return memory;
  }
  // Work that still uses the memory may be queued in any stream.
  void Free(void* memory) noexcept override {
    cudaSetDevice(index_);
    cudaDeviceSynchronize();
    cudaFree(memory);
  }
  void* CreateStream() override {
    Use();
    cudaStream_t stream = nullptr;
    Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
    const std::lock_guard lock(mutex_);
    uploads_.try_emplace(stream, index_);
    return stream;
  }
  void DestroyStream(void* stream) noexcept override {
    cudaSetDevice(index_);
    cudaStreamSynchronize(Native(stream));  // the uploads' buffers go with it
    {
      const std::lock_guard lock(mutex_);
      uploads_.erase(stream);
    }
    cudaStreamDestroy(Native(stream));
  }
  // Waits and copies need not be of the thread's current device.
  void Synchronize(void* stream) override {
    Check(cudaStreamSynchronize(Native(stream)), "running kernels");
  }
  void CopyToHost(void* stream, void* host, const void* device, size_t bytes) override {
    if (bytes == 0) return;
    Check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, Native(stream)),
          "copying to the host");
    Check(cudaStreamSynchronize(Native(stream)), "running kernels");
  }
  void CopyFromHost(void* stream, void* device, const void* host, size_t bytes) override {
    if (bytes == 0) return;
    Use();
    UploadOf(stream).Copy(Native(stream), device, host, bytes);
  }
  void Copy(void* stream, void* to, const void* from, size_t bytes) override {
    if (bytes == 0) return;
    Check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, Native(stream)), "copying");
  }
  void Zero(void* stream, void* memory, size_t bytes) override {
    if (bytes == 0) return;
    Use();
    Check(cudaMemsetAsync(memory, 0, bytes, Native(stream)), "clearing memory");
  }

  int Use() {
    Check(cudaSetDevice(index_), "choosing the device");
    return index_;
  }

 private:
  void Check(cudaError_t status, const char* doing, size_t bytes = 0) {
    CheckCuda(status, doing, index_, bytes);
  }
  CudaUpload& UploadOf(void* stream) {
    const std::lock_guard lock(mutex_);
    const auto found = uploads_.find(stream);
    Ensure(found != uploads_.end(), "a stream was used that this device did not create");
    return found->second;
  }
  cudaStream_t ClearingStream() {
    const std::lock_guard lock(mutex_);
    if (clearing_ == nullptr) {
      Check(cudaStreamCreateWithFlags(&clearing_, cudaStreamNonBlocking), "creating a stream");
    }
    return clearing_;
  }

  const int index_;
  const std::string name_;
  std::mutex mutex_;
  std::map<void*, CudaUpload> uploads_;  // by stream
  cudaStream_t clearing_ = nullptr;      // lives as long as the process, like the device
};

}  // namespace

int UseDeviceOf(const Stream& stream) { return static_cast<Cuda&>(stream.device()).Use(); }

void CheckLaunch(const Stream& stream) {
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) {
    CheckCuda(status, "launching a kernel", static_cast<Cuda&>(stream.device()).Use());
  }
}

int CudaDeviceCount() {
  int count = 0;  // stays as it is when there is no driver
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

GpuStatus GetGpuStatus() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver) {
    return {"NVIDIA's driver is missing or older than CUDA 13 requires",
            "install driver 580 or newer, see nvidia-smi; or omit --gpu"};
  }
  if (status == cudaSuccess && count > 0) return {};
  const std::string reason = status == cudaSuccess ? "" : cudaGetErrorString(status);
  return {fmt::format("the driver lists no GPU{}{}", reason.empty() ? "" : ": ", reason),
          "see nvidia-smi and CUDA_VISIBLE_DEVICES (a GPU must be sm_75 or newer); or omit --gpu"};
}

Device& CudaDevice(int index) {
  static std::mutex mutex;
  // Never destroyed: blobs of other static objects may be freed later.
  static auto& devices = *new std::vector<std::unique_ptr<Cuda>>;
  const std::lock_guard lock(mutex);
  const int count = CudaDeviceCount();
  if (count == 0) {
    const GpuStatus status = GetGpuStatus();
    throw ConfigError(fmt::format("there is no GPU {}: {}", index, status.problem), status.fix);
  }
  if (index < 0 || index >= count) {
    throw ConfigError(fmt::format("there is no GPU {}; {} can be used here", index, count),
                      "see `carafe device_query`; without --gpu the CPU is used");
  }
  devices.resize(static_cast<size_t>(count));
  auto& device = devices[static_cast<size_t>(index)];
  if (!device) {
    cudaDeviceProp properties{};
    CheckCuda(cudaGetDeviceProperties(&properties, index), "asking for the device's name", index);
    device = std::make_unique<Cuda>(index, properties.name);
  }
  return *device;
}

}  // namespace carafe
