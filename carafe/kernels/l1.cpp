#include "carafe/kernels/l1.h"

#include "carafe/kernels/parallel_for.h"

namespace carafe {
namespace {

template <typename T>
struct GradientOp {
  T factor;
  const T *weight, *d;
  T* dx;
  CARAFE_HD void operator()(int64_t i) const {
    const T sign = static_cast<T>((d[i] > 0) - (d[i] < 0));
    dx[i] = factor * weight[0] * sign;
  }
};

}  // namespace

template <typename T>
void L1Gradient(Stream& stream, int64_t n, T factor, const T* weight, const T* d, T* dx) {
  ParallelFor(stream, n, GradientOp<T>{factor, weight, d, dx}, 2);
}

template void L1Gradient<float>(Stream&, int64_t, float, const float*, const float*, float*);
template void L1Gradient<double>(Stream&, int64_t, double, const double*, const double*, double*);

}  // namespace carafe
