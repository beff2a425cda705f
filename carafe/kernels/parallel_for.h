// Runs a functor for i = 0 .. n-1: an OpenMP loop on the CPU, a grid-stride kernel on a GPU. A
// functor is a kernel: one text, compiled by g++ in a CPU build, and as CUDA (for both) in a CUDA
// build. Include from kernel files only: kernels/*.cpp and the update rules in solvers/.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "carafe/base/host_device.h"
#include "carafe/core/stream.h"

#if defined(CARAFE_CUDA) && !defined(__CUDACC__)
#error "in a CUDA build this file must be compiled as CUDA: see carafe/cuda_sources.cmake"
#endif

namespace carafe {

// Below this much work (elements times cost) a loop is not worth waking other threads for.
constexpr int64_t kSerialWork = 16384;

#if defined(__CUDACC__)
template <typename F>
__global__ void ForEach(int64_t n, const F f) {
  const int64_t step = int64_t{blockDim.x} * gridDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) f(i);
}
#endif

// f(begin) .. f(end - 1) by this thread. The calls do not depend on each other (they run side by
// side on a GPU), which the compiler is told, and the functor is a copy whose numbers nothing can
// reach by a pointer: so these loops vectorise.
template <typename F>
inline void SerialFor(int64_t begin, int64_t end, const F f) {
#if defined(__clang__)
#pragma clang loop vectorize(assume_safety)
#elif defined(__GNUC__) && !defined(__CUDACC__)
#pragma GCC ivdep
#endif
  for (int64_t i = begin; i < end; ++i) f(i);
}

// `cost` is the work of one call in elements touched, roughly; it decides whether threads are used.
template <typename F>
void ParallelFor(Stream& stream, int64_t n, const F& f, int64_t cost = 1) {
  if (n <= 0) return;
#if defined(__CUDACC__)
  if (!stream.on_cpu()) {
    constexpr int kThreads = 256;
    const int64_t blocks = std::min<int64_t>((n + kThreads - 1) / kThreads, 4096);
    ForEach<<<static_cast<unsigned>(blocks), kThreads, 0,
              static_cast<cudaStream_t>(stream.native())>>>(n, f);
    return;
  }
#endif
  if (stream.threads() <= 1 || n * cost < kSerialWork) return SerialFor(0, n, f);
#pragma omp parallel num_threads(stream.threads())
  {
    const int64_t threads = omp_get_num_threads(), me = omp_get_thread_num();
    SerialFor(n * me / threads, n * (me + 1) / threads, f);
  }
}

}  // namespace carafe
