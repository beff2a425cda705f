#include "carafe/kernels/blocks.h"

#include "carafe/kernels/parallel_for.h"

namespace carafe {
namespace {

template <bool kAdd, typename T>
struct BlockOp {  // one row
  int64_t width;
  const T* x;
  int64_t x_step;
  T* y;
  int64_t y_step;
  CARAFE_HD void operator()(int64_t r) const {
    const T* in = x + r * x_step;
    T* out = y + r * y_step;
    for (int64_t i = 0; i < width; ++i) out[i] = kAdd ? out[i] + in[i] : in[i];
  }
};

}  // namespace

template <typename T>
void CopyBlock(Stream& stream, int64_t rows, int64_t width, const T* x, int64_t x_step, T* y,
               int64_t y_step) {
  ParallelFor(stream, rows, BlockOp<false, T>{width, x, x_step, y, y_step}, width);
}
template <typename T>
void AddBlock(Stream& stream, int64_t rows, int64_t width, const T* x, int64_t x_step, T* y,
              int64_t y_step) {
  ParallelFor(stream, rows, BlockOp<true, T>{width, x, x_step, y, y_step}, width);
}

#define CARAFE_INSTANTIATE(T)                                                            \
  template void CopyBlock<T>(Stream&, int64_t, int64_t, const T*, int64_t, T*, int64_t); \
  template void AddBlock<T>(Stream&, int64_t, int64_t, const T*, int64_t, T*, int64_t);
CARAFE_INSTANTIATE(float)
CARAFE_INSTANTIATE(double)
#undef CARAFE_INSTANTIATE

}  // namespace carafe
