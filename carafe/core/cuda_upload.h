// Copies from the host that leave the caller's memory at once: through a ring of page-locked
// buffers, each with an event that says when the device has read it.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>

namespace carafe {

// Of one stream, and like it used by one thread at a time. The device of the stream is current
// whenever it is used.
class CudaUpload {
 public:
  explicit CudaUpload(int device) : device_(device) {}
  CudaUpload(const CudaUpload&) = delete;
  CudaUpload& operator=(const CudaUpload&) = delete;
  ~CudaUpload();  // after the stream's work is done

  // The host waits only for a buffer that the device has not read yet: kBuffers copies later.
  void Copy(cudaStream_t stream, void* to, const void* from, size_t bytes);

 private:
  static constexpr int kBuffers = 4;
  static constexpr size_t kMostBytes = size_t{4} << 20;  // of a buffer; more is copied in pieces
  struct Buffer {
    void* memory = nullptr;
    size_t bytes = 0;
    cudaEvent_t read = nullptr;  // recorded behind the copy that reads it
  };
  void Grow(Buffer& buffer, size_t bytes);

  const int device_;
  std::array<Buffer, kBuffers> buffers_;
  size_t next_ = 0;
};

}  // namespace carafe
