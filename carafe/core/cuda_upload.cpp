#include "carafe/core/cuda_upload.h"

#include <algorithm>
#include <cstring>

#include "carafe/core/cuda_runtime.h"

namespace carafe {

CudaUpload::~CudaUpload() {
  for (Buffer& buffer : buffers_) {
    if (buffer.read != nullptr) cudaEventDestroy(buffer.read);
    if (buffer.memory != nullptr) cudaFreeHost(buffer.memory);
  }
}

void CudaUpload::Grow(Buffer& buffer, size_t bytes) {
  if (buffer.memory != nullptr) CheckCuda(cudaFreeHost(buffer.memory), "freeing a buffer", device_);
  buffer.memory = nullptr;
  buffer.bytes = 0;
  CheckCuda(cudaHostAlloc(&buffer.memory, bytes, cudaHostAllocDefault),
            "allocating page-locked memory", device_, bytes);
  buffer.bytes = bytes;
}

void CudaUpload::Copy(cudaStream_t stream, void* to, const void* from, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const size_t piece = std::min(bytes - done, kMostBytes);
    Buffer& buffer = buffers_[next_];
    next_ = (next_ + 1) % kBuffers;
    if (buffer.read == nullptr) {
      CheckCuda(cudaEventCreateWithFlags(&buffer.read, cudaEventDisableTiming), "creating an event",
                device_);
    }
    CheckCuda(cudaEventSynchronize(buffer.read), "copying to the GPU", device_);
    if (buffer.bytes < piece) Grow(buffer, piece);
    std::memcpy(buffer.memory, static_cast<const char*>(from) + done, piece);
    CheckCuda(cudaMemcpyAsync(static_cast<char*>(to) + done, buffer.memory, piece,
                              cudaMemcpyHostToDevice, stream),
              "copying to the GPU", device_);
    CheckCuda(cudaEventRecord(buffer.read, stream), "copying to the GPU", device_);
    done += piece;
  }
}

}  // namespace carafe
