#include "carafe/kernels/lrn.h"

#include <cmath>

#include "carafe/kernels/parallel_for.h"

namespace carafe {
namespace {

// One run of `inner` elements.
template <typename T>
struct WindowSumOp {
  int64_t n, inner, half;
  const T* x;
  T* y;
  CARAFE_HD void operator()(int64_t run) const {
    const int64_t c = run % n;
    const int64_t first = c > half ? c - half : 0, last = c + half < n - 1 ? c + half : n - 1;
    const T* in = x + (run - c) * inner;
    T* out = y + run * inner;
    for (int64_t i = 0; i < inner; ++i) out[i] = in[first * inner + i];
    for (int64_t other = first + 1; other <= last; ++other) {
      for (int64_t i = 0; i < inner; ++i) out[i] += in[other * inner + i];
    }
  }
};

// One run of n elements that lie side by side.
template <typename T>
struct LineSumOp {
  int64_t n, half;
  const T* x;
  T* y;
  CARAFE_HD void operator()(int64_t line) const {
    const T* in = x + line * n;
    T* out = y + line * n;
    for (int64_t c = 0; c < n; ++c) {
      const int64_t first = c > half ? c - half : 0, last = c + half < n - 1 ? c + half : n - 1;
      T sum = 0;
      for (int64_t other = first; other <= last; ++other) sum += in[other];
      out[c] = sum;
    }
  }
};

// scale^-beta; the usual beta of 3/4 needs two roots only, and then the loop vectorises.
template <bool kThreeQuarters, typename T>
CARAFE_HD inline T NegativePower(T scale, T beta) {
  if (kThreeQuarters) {
    const T root = std::sqrt(scale);
    return T(1) / (root * std::sqrt(root));
  }
  return std::pow(scale, -beta);
}

template <bool kThreeQuarters, typename T>
struct LrnForwardOp {
  T k, a, beta;
  const T* x;
  T *scale, *y;
  CARAFE_HD void operator()(int64_t i) const {
    const T s = k + a * scale[i];
    scale[i] = s;
    y[i] = x[i] * NegativePower<kThreeQuarters>(s, beta);
  }
};

template <typename T>
struct LrnRatioOp {
  const T *y, *dy, *scale;
  T* ratio;
  CARAFE_HD void operator()(int64_t i) const { ratio[i] = dy[i] * y[i] / scale[i]; }
};

template <bool kThreeQuarters, typename T>
struct LrnBackwardOp {
  T factor, beta;  // 2 a beta
  const T *x, *dy, *scale, *sums;
  T* dx;
  CARAFE_HD void operator()(int64_t i) const {
    dx[i] = dy[i] * NegativePower<kThreeQuarters>(scale[i], beta) - factor * x[i] * sums[i];
  }
};

template <typename T>
bool IsThreeQuarters(T beta) {
  return beta == T(0.75);
}

}  // namespace

template <typename T>
void WindowSum(Stream& stream, int64_t outer, int64_t n, int64_t inner, int64_t half, const T* x,
               T* y) {
  const int64_t width = 2 * half + 1 < n ? 2 * half + 1 : n;
  if (inner == 1) return ParallelFor(stream, outer, LineSumOp<T>{n, half, x, y}, n * width);
  ParallelFor(stream, outer * n, WindowSumOp<T>{n, inner, half, x, y}, inner * width);
}

template <typename T>
void LrnForward(Stream& stream, int64_t count, T k, T a, T beta, const T* x, T* scale, T* y) {
  if (IsThreeQuarters(beta)) {
    return ParallelFor(stream, count, LrnForwardOp<true, T>{k, a, beta, x, scale, y}, 4);
  }
  ParallelFor(stream, count, LrnForwardOp<false, T>{k, a, beta, x, scale, y}, 16);
}
template <typename T>
void LrnRatio(Stream& stream, int64_t count, const T* y, const T* dy, const T* scale, T* ratio) {
  ParallelFor(stream, count, LrnRatioOp<T>{y, dy, scale, ratio});
}
template <typename T>
void LrnBackward(Stream& stream, int64_t count, T a, T beta, const T* x, const T* dy,
                 const T* scale, const T* sums, T* dx) {
  const T factor = 2 * a * beta;
  if (IsThreeQuarters(beta)) {
    return ParallelFor(stream, count, LrnBackwardOp<true, T>{factor, beta, x, dy, scale, sums, dx},
                       4);
  }
  ParallelFor(stream, count, LrnBackwardOp<false, T>{factor, beta, x, dy, scale, sums, dx}, 16);
}

#define CARAFE_INSTANTIATE(T)                                                            \
  template void WindowSum<T>(Stream&, int64_t, int64_t, int64_t, int64_t, const T*, T*); \
  template void LrnForward<T>(Stream&, int64_t, T, T, T, const T*, T*, T*);              \
  template void LrnRatio<T>(Stream&, int64_t, const T*, const T*, const T*, T*);         \
  template void LrnBackward<T>(Stream&, int64_t, T, T, const T*, const T*, const T*, const T*, T*);
CARAFE_INSTANTIATE(float)
CARAFE_INSTANTIATE(double)
#undef CARAFE_INSTANTIATE

}  // namespace carafe
