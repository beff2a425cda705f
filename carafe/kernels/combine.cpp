#include "carafe/kernels/combine.h"

#include "carafe/kernels/parallel_for.h"

namespace carafe {
namespace {

template <typename T>
struct WeightedAddOp {
  T c0, c1;
  const T *a, *b;
  T* y;
  CARAFE_HD void operator()(int64_t i) const { y[i] = c0 * a[i] + c1 * b[i]; }
};
template <typename T>
struct WeightedAddReluOp {
  T c0, c1;
  const T *a, *b;
  T* y;
  CARAFE_HD void operator()(int64_t i) const {
    const T sum = c0 * a[i] + c1 * b[i];
    y[i] = sum < 0 ? T(0) : sum;  // what is not a number stays so
  }
};
template <typename T>
struct WeightedAddReluGradientOp {
  T c0, c1;
  const T *y, *dy;
  T *da, *db;
  CARAFE_HD void operator()(int64_t i) const {
    const T d = y[i] > 0 ? dy[i] : T(0);
    da[i] = c0 * d;
    db[i] = c1 * d;
  }
};
template <typename T>
struct QuotientGradientOp {
  const T *x, *y_all, *dy;
  T* dx;
  CARAFE_HD void operator()(int64_t i) const { dx[i] = dy[i] * (y_all[i] / x[i]); }
};
template <typename T>
struct MaxOfTwoOp {
  const T *a, *b;
  T* y;
  int32_t* which;
  CARAFE_HD void operator()(int64_t i) const {
    const bool first = a[i] > b[i];
    y[i] = first ? a[i] : b[i];
    which[i] = first ? 0 : 1;
  }
};
template <typename T>
struct MaxWithOp {
  const T* x;
  int32_t index;
  T* y;
  int32_t* which;
  CARAFE_HD void operator()(int64_t i) const {
    if (x[i] > y[i]) {
      y[i] = x[i];
      which[i] = index;
    }
  }
};
template <typename T>
struct SelectGradientOp {
  const int32_t* which;
  int32_t index;
  const T* dy;
  T* dx;
  CARAFE_HD void operator()(int64_t i) const { dx[i] = which[i] == index ? dy[i] : T(0); }
};

}  // namespace

template <typename T>
void WeightedAdd(Stream& stream, int64_t n, T c0, const T* a, T c1, const T* b, T* y) {
  ParallelFor(stream, n, WeightedAddOp<T>{c0, c1, a, b, y});
}
template <typename T>
void WeightedAddRelu(Stream& stream, int64_t n, T c0, const T* a, T c1, const T* b, T* y) {
  ParallelFor(stream, n, WeightedAddReluOp<T>{c0, c1, a, b, y});
}
template <typename T>
void WeightedAddReluGradient(Stream& stream, int64_t n, const T* y, const T* dy, T c0, T* da, T c1,
                             T* db) {
  ParallelFor(stream, n, WeightedAddReluGradientOp<T>{c0, c1, y, dy, da, db});
}
template <typename T>
void QuotientGradient(Stream& stream, int64_t n, const T* x, const T* y_all, const T* dy, T* dx) {
  ParallelFor(stream, n, QuotientGradientOp<T>{x, y_all, dy, dx});
}
template <typename T>
void MaxOfTwo(Stream& stream, int64_t n, const T* a, const T* b, T* y, int32_t* which) {
  ParallelFor(stream, n, MaxOfTwoOp<T>{a, b, y, which});
}
template <typename T>
void MaxWith(Stream& stream, int64_t n, const T* x, int32_t index, T* y, int32_t* which) {
  ParallelFor(stream, n, MaxWithOp<T>{x, index, y, which});
}
template <typename T>
void SelectGradient(Stream& stream, int64_t n, const int32_t* which, int32_t index, const T* dy,
                    T* dx) {
  ParallelFor(stream, n, SelectGradientOp<T>{which, index, dy, dx});
}

#define CARAFE_INSTANTIATE(T)                                                                   \
  template void WeightedAdd<T>(Stream&, int64_t, T, const T*, T, const T*, T*);                 \
  template void WeightedAddRelu<T>(Stream&, int64_t, T, const T*, T, const T*, T*);             \
  template void WeightedAddReluGradient<T>(Stream&, int64_t, const T*, const T*, T, T*, T, T*); \
  template void QuotientGradient<T>(Stream&, int64_t, const T*, const T*, const T*, T*);        \
  template void MaxOfTwo<T>(Stream&, int64_t, const T*, const T*, T*, int32_t*);                \
  template void MaxWith<T>(Stream&, int64_t, const T*, int32_t, T*, int32_t*);                  \
  template void SelectGradient<T>(Stream&, int64_t, const int32_t*, int32_t, const T*, T*);
CARAFE_INSTANTIATE(float)
CARAFE_INSTANTIATE(double)
#undef CARAFE_INSTANTIATE

}  // namespace carafe
