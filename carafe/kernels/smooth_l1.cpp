#include "carafe/kernels/smooth_l1.h"

#include "carafe/kernels/parallel_for.h"

namespace carafe {
namespace {

template <typename T>
struct LossesOp {
  T s;
  const T *a, *b, *inside, *outside;
  T *differences, *losses;
  CARAFE_HD void operator()(int64_t i) const {
    const T d = (inside != nullptr ? inside[i] : T(1)) * (a[i] - b[i]);
    const T size = d < 0 ? -d : d;
    const T f = size < 1 / s ? T(0.5) * s * d * d : size - T(0.5) / s;
    differences[i] = d;
    losses[i] = (outside != nullptr ? outside[i] : T(1)) * f;
  }
};

template <typename T>
struct GradientOp {
  T s;
  const T *differences, *inside, *outside;
  T factor;
  const T* weight;
  T* dx;
  CARAFE_HD void operator()(int64_t i) const {
    const T d = differences[i], size = d < 0 ? -d : d;
    const T slope = size < 1 / s ? s * d : (d > 0 ? T(1) : T(-1));
    const T in = inside != nullptr ? inside[i] : T(1), out = outside != nullptr ? outside[i] : T(1);
    dx[i] = factor * weight[0] * in * out * slope;
  }
};

}  // namespace

template <typename T>
void SmoothL1Losses(Stream& stream, int64_t n, T s, const T* a, const T* b, const T* inside,
                    const T* outside, T* differences, T* losses) {
  ParallelFor(stream, n, LossesOp<T>{s, a, b, inside, outside, differences, losses}, 4);
}
template <typename T>
void SmoothL1Gradient(Stream& stream, int64_t n, T s, const T* differences, const T* inside,
                      const T* outside, T factor, const T* weight, T* dx) {
  ParallelFor(stream, n, GradientOp<T>{s, differences, inside, outside, factor, weight, dx}, 4);
}

#define CARAFE_INSTANTIATE(T)                                                                      \
  template void SmoothL1Losses<T>(Stream&, int64_t, T, const T*, const T*, const T*, const T*, T*, \
                                  T*);                                                             \
  template void SmoothL1Gradient<T>(Stream&, int64_t, T, const T*, const T*, const T*, T,          \
                                    const T*, T*);
CARAFE_INSTANTIATE(float)
CARAFE_INSTANTIATE(double)
#undef CARAFE_INSTANTIATE

}  // namespace carafe
