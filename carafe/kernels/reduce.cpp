#include "carafe/kernels/reduce.h"

#include "carafe/kernels/parallel_for.h"

namespace carafe {
namespace {

template <RowSum kind, typename T>
CARAFE_HD inline T Term(T x) {
  if (kind == RowSum::kAbs) return x < 0 ? -x : x;
  return kind == RowSum::kSquare ? x * x : x;
}
template <RowSum kind, typename T>
CARAFE_HD inline T Slope(T x) {
  if (kind == RowSum::kAbs) return x > 0 ? T(1) : (x < 0 ? T(-1) : T(0));
  return kind == RowSum::kSquare ? 2 * x : T(1);
}

template <RowSum kind, typename T>
struct SumRowsOp {
  int64_t width;
  T factor;
  const T* x;
  T* y;
  CARAFE_HD void operator()(int64_t r) const {
    double sum = 0;
    for (int64_t i = r * width; i < (r + 1) * width; ++i) {
      sum += static_cast<double>(Term<kind>(x[i]));
    }
    y[r] = factor * static_cast<T>(sum);
  }
};
template <RowSum kind, typename T>
struct SumRowsBackwardOp {
  int64_t width;
  T factor;
  const T *x, *dy;
  T* dx;
  CARAFE_HD void operator()(int64_t r) const {
    const T scale = factor * dy[r];
    for (int64_t i = r * width; i < (r + 1) * width; ++i) dx[i] = scale * Slope<kind>(x[i]);
  }
};

template <typename T>
struct LargestOp {
  ClassAxis axis;
  int64_t k;
  const T* x;
  T *indices, *values;
  CARAFE_HD void operator()(int64_t item) const {
    const T* in = x + axis.first_of(item);
    const int64_t out = item / axis.inner * k * axis.inner + item % axis.inner;
    int64_t before = -1;  // the one found last
    for (int64_t j = 0; j < k; ++j) {
      int64_t best = -1;
      for (int64_t c = 0; c < axis.classes; ++c) {
        const T value = in[c * axis.inner];
        if (before >= 0) {  // only those that come after it
          const T last = in[before * axis.inner];
          if (value > last || (value == last && c >= before)) continue;
        }
        if (best < 0 || value >= in[best * axis.inner]) best = c;
      }
      if (best < 0) best = 0;  // nothing but NaN is left
      if (indices != nullptr) indices[out + j * axis.inner] = static_cast<T>(best);
      if (values != nullptr) values[out + j * axis.inner] = in[best * axis.inner];
      before = best;
    }
  }
};

template <typename Run>
void Dispatch(RowSum kind, const Run& run) {
  if (kind == RowSum::kValue) run.template operator()<RowSum::kValue>();
  if (kind == RowSum::kAbs) run.template operator()<RowSum::kAbs>();
  if (kind == RowSum::kSquare) run.template operator()<RowSum::kSquare>();
}

}  // namespace

template <typename T>
void SumRows(Stream& stream, RowSum kind, int64_t rows, int64_t width, T factor, const T* x, T* y) {
  Dispatch(kind, [&]<RowSum k>() {
    ParallelFor(stream, rows, SumRowsOp<k, T>{width, factor, x, y}, width);
  });
}
template <typename T>
void SumRowsBackward(Stream& stream, RowSum kind, int64_t rows, int64_t width, T factor, const T* x,
                     const T* dy, T* dx) {
  Dispatch(kind, [&]<RowSum k>() {
    ParallelFor(stream, rows, SumRowsBackwardOp<k, T>{width, factor, x, dy, dx}, width);
  });
}
template <typename T>
void Largest(Stream& stream, ClassAxis axis, int64_t k, const T* x, T* indices, T* values) {
  ParallelFor(stream, axis.items(), LargestOp<T>{axis, k, x, indices, values}, k * axis.classes);
}

#define CARAFE_INSTANTIATE(T)                                                                     \
  template void SumRows<T>(Stream&, RowSum, int64_t, int64_t, T, const T*, T*);                   \
  template void SumRowsBackward<T>(Stream&, RowSum, int64_t, int64_t, T, const T*, const T*, T*); \
  template void Largest<T>(Stream&, ClassAxis, int64_t, const T*, T*, T*);
CARAFE_INSTANTIATE(float)
CARAFE_INSTANTIATE(double)
#undef CARAFE_INSTANTIATE

}  // namespace carafe
