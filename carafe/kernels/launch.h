// The one place where kernels are launched: f(0) .. f(n - 1), in any order, on a GPU's stream.
// Compiled as CUDA, or by g++ for the virtual GPU (tests/vgpu), which queues the functor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "carafe/core/cuda_runtime.h"
#include "carafe/core/stream.h"

namespace carafe {

#if defined(CARAFE_VGPU)

// Queues kernel(functor, begin, end, step) behind the stream's other work; the functor's bytes are
// copied. The status is left for cudaGetLastError, as CUDA does. `name` lives forever.
extern "C" void carafe_vgpu_launch(void* stream, const char* name,
                                   void (*kernel)(const void* functor, int64_t begin, int64_t end,
                                                  int64_t step),
                                   const void* functor, size_t bytes, int64_t n);

template <typename F>
void ForEach(const void* functor, int64_t begin, int64_t end, int64_t step) {
  const F& f = *static_cast<const F*>(functor);
  for (int64_t i = begin; i != end; i += step) f(i);
}

template <typename F>
void Launch(Stream& stream, int64_t n, const F& f) {
  static_assert(std::is_trivially_copyable_v<F>, "a kernel's arguments are copied as bytes");
  UseDeviceOf(stream);
  F copy = f;
  __builtin_clear_padding(&copy);  // the virtual GPU looks for addresses among the bytes
  carafe_vgpu_launch(stream.native(), __PRETTY_FUNCTION__, ForEach<F>, &copy, sizeof copy, n);
  CheckLaunch(stream);
}

#elif defined(__CUDACC__)

template <typename F>
__global__ void ForEach(int64_t n, const F f) {
  const int64_t step = int64_t{blockDim.x} * gridDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) f(i);
}

template <typename F>
void Launch(Stream& stream, int64_t n, const F& f) {
  static_assert(std::is_trivially_copyable_v<F>, "a kernel's arguments are copied as bytes");
  constexpr unsigned kThreads = 256;
  constexpr int64_t kMostBlocks = 4096;
  const int64_t needed = (n + kThreads - 1) / kThreads;
  const auto blocks = static_cast<unsigned>(needed < kMostBlocks ? needed : kMostBlocks);
  const auto native = static_cast<cudaStream_t>(stream.native());
  UseDeviceOf(stream);
  // clang-format off
  ForEach<<<blocks, kThreads, 0, native>>>(n, f);
  // clang-format on
  CheckLaunch(stream);
}

#else
#error "in a CUDA build this file must be compiled as CUDA: see carafe/cuda_sources.cmake"
#endif

}  // namespace carafe
