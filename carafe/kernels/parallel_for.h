// Runs a functor for i = 0 .. n-1: an OpenMP loop on the CPU, a grid-stride kernel on a GPU. A
// functor is a kernel: one text, compiled by g++ in a CPU build, and as CUDA (for both) in a CUDA
// build. Include from kernel files only: kernels/*.cpp and the update rules in solvers/.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "carafe/base/host_device.h"
#include "carafe/core/stream.h"

#if defined(CARAFE_CUDA) || defined(CARAFE_VGPU)
#include "carafe/kernels/launch.h"
#endif

namespace carafe {

// Below this much work (elements times cost) a loop is not worth waking other threads for.
constexpr int64_t kSerialWork = 16384;

// A functor is copied to a GPU as bytes, and run there for all indices side by side. So it holds
// numbers and pointers to memory of the stream's device, never a pointer or reference to host
// memory, and f(i) depends on nothing that f(j) writes. The virtual GPU of tests/vgpu looks for
// addresses of the host in it, and runs the indices forwards or backwards.
//
// kernels/launch.h has the only launch of a kernel. In a CUDA build the files that include this one
// must be compiled as CUDA: see carafe/cuda_sources.cmake.

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
#if defined(CARAFE_CUDA) || defined(CARAFE_VGPU)
  // The kernel is queued and runs later.
  //   - What the functor points to must stay until then; blobs do, for freeing memory waits.
  //   - The host sees what the kernel has written after CopyToHost or Synchronize.
  //   - The number of threads and the cost do not matter.
  //   - An error of an earlier kernel may be thrown here: a launch may be the first call that
  //     reports it.
  if (!stream.on_cpu()) return Launch(stream, n, f);
#endif
  if (stream.threads() <= 1 || n * cost < kSerialWork) return SerialFor(0, n, f);
#pragma omp parallel num_threads(stream.threads())
  {
    const int64_t threads = omp_get_num_threads(), me = omp_get_thread_num();
    SerialFor(n * me / threads, n * (me + 1) / threads, f);
  }
}

}  // namespace carafe
