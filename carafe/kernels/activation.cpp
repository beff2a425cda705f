#include "carafe/kernels/activation.h"

#include "carafe/kernels/parallel_for.h"

namespace carafe {
namespace {

template <typename T>
struct ReluForwardOp {
  T slope;
  const T* x;
  T* y;
  CARAFE_HD void operator()(int64_t i) const { y[i] = x[i] > 0 ? x[i] : slope * x[i]; }
};
template <typename T>
struct ReluBackwardOp {
  T slope;
  const T *x, *dy;
  T* dx;
  CARAFE_HD void operator()(int64_t i) const { dx[i] = x[i] > 0 ? dy[i] : slope * dy[i]; }
};

// One run of `inner` elements of a channel.
template <typename T>
struct PReluForwardOp {
  int64_t channels, inner;
  const T *slopes, *x;
  T* y;
  CARAFE_HD void operator()(int64_t run) const {
    const T slope = slopes[run % channels];
    for (int64_t i = run * inner; i < (run + 1) * inner; ++i) y[i] = x[i] > 0 ? x[i] : slope * x[i];
  }
};
template <typename T>
struct PReluBackwardOp {
  int64_t channels, inner;
  const T *slopes, *x, *dy;
  T* dx;
  CARAFE_HD void operator()(int64_t run) const {
    const T slope = slopes[run % channels];
    for (int64_t i = run * inner; i < (run + 1) * inner; ++i) {
      dx[i] = x[i] > 0 ? dy[i] : slope * dy[i];
    }
  }
};
template <typename T>
struct PReluSlopeOp {  // one channel
  int64_t outer, channels, inner;
  const T *x, *dy;
  T* ds;
  CARAFE_HD void operator()(int64_t c) const {
    T sum = 0;
    for (int64_t o = 0; o < outer; ++o) {
      const int64_t first = (o * channels + c) * inner;
      T part = 0;
      for (int64_t i = first; i < first + inner; ++i) part += x[i] > 0 ? T(0) : x[i] * dy[i];
      sum += part;
    }
    ds[c] += sum;
  }
};

// Four elements of one row: one Philox block.
struct DrawMaskOp {
  RandomKey key;
  int64_t slot_offset, slot_stride, width, blocks;  // blocks of four per row
  uint32_t least;                                   // bits >= least keep the element
  uint8_t* mask;
  CARAFE_HD void operator()(int64_t i) const {
    const int64_t row = i / blocks, block = i % blocks;
    const uint64_t slot = static_cast<uint64_t>(row * slot_stride + slot_offset);
    const Philox4 bits = Philox(key.key, (slot << 32) | static_cast<uint32_t>(block),
                                static_cast<uint64_t>(key.pass));
    uint8_t* out = mask + row * width + 4 * block;
    const int64_t left = width - 4 * block;
    for (int64_t j = 0; j < 4 && j < left; ++j) out[j] = (bits.v[j] >> 8) >= least;
  }
};

template <typename T>
struct MultiplyMaskOp {
  T scale;
  const uint8_t* mask;
  const T* x;
  T* y;
  CARAFE_HD void operator()(int64_t i) const { y[i] = x[i] * (static_cast<T>(mask[i]) * scale); }
};

}  // namespace

template <typename T>
void ReluForward(Stream& stream, int64_t n, T slope, const T* x, T* y) {
  ParallelFor(stream, n, ReluForwardOp<T>{slope, x, y});
}
template <typename T>
void ReluBackward(Stream& stream, int64_t n, T slope, const T* x, const T* dy, T* dx) {
  ParallelFor(stream, n, ReluBackwardOp<T>{slope, x, dy, dx});
}

template <typename T>
void PReluForward(Stream& stream, int64_t outer, int64_t channels, int64_t inner, const T* slopes,
                  const T* x, T* y) {
  ParallelFor(stream, outer * channels, PReluForwardOp<T>{channels, inner, slopes, x, y}, inner);
}
template <typename T>
void PReluBackward(Stream& stream, int64_t outer, int64_t channels, int64_t inner, const T* slopes,
                   const T* x, const T* dy, T* dx) {
  ParallelFor(stream, outer * channels, PReluBackwardOp<T>{channels, inner, slopes, x, dy, dx},
              inner);
}
template <typename T>
void PReluAddSlopeGradient(Stream& stream, int64_t outer, int64_t channels, int64_t inner,
                           const T* x, const T* dy, T* ds) {
  ParallelFor(stream, channels, PReluSlopeOp<T>{outer, channels, inner, x, dy, ds}, outer * inner);
}

void DrawMask(Stream& stream, RandomKey key, int64_t slot_offset, int64_t slot_stride, int64_t rows,
              int64_t width, float ratio, uint8_t* mask) {
  const int64_t blocks = (width + 3) / 4;
  const uint32_t least = static_cast<uint32_t>(static_cast<double>(ratio) * 16777216.0);
  ParallelFor(stream, rows * blocks,
              DrawMaskOp{key, slot_offset, slot_stride, width, blocks, least, mask}, 32);
}
template <typename T>
void MultiplyMask(Stream& stream, int64_t n, T scale, const uint8_t* mask, const T* x, T* y) {
  ParallelFor(stream, n, MultiplyMaskOp<T>{scale, mask, x, y});
}

#define CARAFE_INSTANTIATE(T)                                                                      \
  template void PReluForward<T>(Stream&, int64_t, int64_t, int64_t, const T*, const T*, T*);       \
  template void PReluBackward<T>(Stream&, int64_t, int64_t, int64_t, const T*, const T*, const T*, \
                                 T*);                                                              \
  template void PReluAddSlopeGradient<T>(Stream&, int64_t, int64_t, int64_t, const T*, const T*,   \
                                         T*);                                                      \
  template void ReluForward<T>(Stream&, int64_t, T, const T*, T*);                                 \
  template void ReluBackward<T>(Stream&, int64_t, T, const T*, const T*, T*);                      \
  template void MultiplyMask<T>(Stream&, int64_t, T, const uint8_t*, const T*, T*);
CARAFE_INSTANTIATE(float)
CARAFE_INSTANTIATE(double)
#undef CARAFE_INSTANTIATE

}  // namespace carafe
