// CUDA devices; compiled in CUDA builds only. A machine without a driver has none, and the CPU
// still works.
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <memory>
#include <mutex>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/core/device.h"

namespace carafe {
namespace {

void Check(cudaError_t status, const char* doing) {
  if (status == cudaSuccess) return;
  throw DataError("GPU", -1, fmt::format("{}: {}", doing, cudaGetErrorString(status)),
                  "see nvidia-smi for the state of the device");
}

class Cuda final : public Device {
 public:
  Cuda(int index, std::string name) : index_(index), name_(std::move(name)) {}
  DeviceKind kind() const override { return DeviceKind::kCuda; }
  std::string name() const override { return fmt::format("GPU {} ({})", index_, name_); }
  void* Allocate(size_t bytes) override {
    Use();
    void* memory = nullptr;
    Check(cudaMalloc(&memory, bytes), "allocating memory");
    Check(cudaMemset(memory, 0, bytes), "clearing memory");
    return memory;
  }
  void Free(void* memory) noexcept override { cudaFree(memory); }
  void* CreateStream() override {
    Use();
    cudaStream_t stream = nullptr;
    Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
    return stream;
  }
  void DestroyStream(void* stream) noexcept override {
    cudaStreamDestroy(static_cast<cudaStream_t>(stream));
  }
  void Synchronize(void* stream) override {
    Check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), "running kernels");
  }
  void CopyToHost(void* stream, void* host, const void* device, size_t bytes) override {
    Move(stream, host, device, bytes, cudaMemcpyDeviceToHost);
    Synchronize(stream);
  }
  void CopyFromHost(void* stream, void* device, const void* host, size_t bytes) override {
    Move(stream, device, host, bytes, cudaMemcpyHostToDevice);
    Synchronize(stream);
  }
  void Copy(void* stream, void* to, const void* from, size_t bytes) override {
    Move(stream, to, from, bytes, cudaMemcpyDeviceToDevice);
  }
  void Zero(void* stream, void* memory, size_t bytes) override {
    Check(cudaMemsetAsync(memory, 0, bytes, static_cast<cudaStream_t>(stream)), "clearing memory");
  }

 private:
  void Use() { Check(cudaSetDevice(index_), "choosing the device"); }
  static void Move(void* stream, void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    Check(cudaMemcpyAsync(to, from, bytes, kind, static_cast<cudaStream_t>(stream)), "copying");
  }
  const int index_;
  const std::string name_;
};

}  // namespace

int CudaDeviceCount() {
  int count = 0;  // stays as it is when there is no driver
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

Device& CudaDevice(int index) {
  static std::mutex mutex;
  static std::vector<std::unique_ptr<Cuda>> devices;
  std::lock_guard lock(mutex);
  const int count = CudaDeviceCount();
  if (index < 0 || index >= count) {
    throw ConfigError(fmt::format("there is no GPU {}; {} can be used here", index, count),
                      "see `carafe device_query`; without --gpu the CPU is used");
  }
  devices.resize(static_cast<size_t>(count));
  auto& device = devices[static_cast<size_t>(index)];
  if (!device) {
    cudaDeviceProp properties{};
    Check(cudaGetDeviceProperties(&properties, index), "asking for the device's name");
    device = std::make_unique<Cuda>(index, properties.name);
  }
  return *device;
}

}  // namespace carafe
