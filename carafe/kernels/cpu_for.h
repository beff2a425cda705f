// A loop over the threads of a stream. For CPU-only kernel files, which are never compiled as CUDA.
#pragma once

#include <cstdint>

#include "carafe/core/stream.h"

namespace carafe {

// Calls f(i) for i = 0 .. n-1, on the stream's threads where n * cost elements are worth it. What
// f(i) computes may not depend on how the calls are dealt.
template <typename F>
void CpuFor(const Stream& stream, int64_t n, int64_t cost, const F& f) {
  constexpr int64_t kSerial = 32768;
  if (stream.threads() <= 1 || n <= 1 || n * cost < kSerial) {
    for (int64_t i = 0; i < n; ++i) f(i);
    return;
  }
#pragma omp parallel for schedule(static) num_threads(stream.threads())
  for (int64_t i = 0; i < n; ++i) f(i);
}

}  // namespace carafe
