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

#define CARAFE_INSTANTIATE(T)                                                 \
  template void ReluForward<T>(Stream&, int64_t, T, const T*, T*);            \
  template void ReluBackward<T>(Stream&, int64_t, T, const T*, const T*, T*); \
  template void MultiplyMask<T>(Stream&, int64_t, T, const uint8_t*, const T*, T*);
CARAFE_INSTANTIATE(float)
CARAFE_INSTANTIATE(double)
#undef CARAFE_INSTANTIATE

}  // namespace carafe
