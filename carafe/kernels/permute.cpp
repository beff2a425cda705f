#include "carafe/kernels/permute.h"

#include "carafe/kernels/parallel_for.h"

namespace carafe {
namespace {

// One run along the last axis of y.
template <bool kBack, typename T>
struct PermuteOp {
  PermuteGeometry g;
  T *x, *y;
  CARAFE_HD void operator()(int64_t run) const {
    const int last = g.axes - 1;
    int64_t at = 0, rest = run;
    for (int a = last - 1; a >= 0; --a) {
      at += rest % g.out[a] * g.step[a];
      rest /= g.out[a];
    }
    T* in = x + at;
    T* out = y + run * g.out[last];
    for (int64_t i = 0; i < g.out[last]; ++i) {
      if (kBack) {
        in[i * g.step[last]] = out[i];
      } else {
        out[i] = in[i * g.step[last]];
      }
    }
  }
};

template <bool kBack, typename T>
void Run(Stream& stream, const PermuteGeometry& g, T* x, T* y) {
  int64_t runs = 1;
  for (int a = 0; a < g.axes - 1; ++a) runs *= g.out[a];
  ParallelFor(stream, runs, PermuteOp<kBack, T>{g, x, y}, g.out[g.axes - 1]);
}

}  // namespace

template <typename T>
void PermuteForward(Stream& stream, const PermuteGeometry& g, const T* x, T* y) {
  Run<false>(stream, g, const_cast<T*>(x), y);
}
template <typename T>
void PermuteBackward(Stream& stream, const PermuteGeometry& g, const T* y, T* x) {
  Run<true>(stream, g, x, const_cast<T*>(y));
}

#define CARAFE_INSTANTIATE(T)                                                     \
  template void PermuteForward<T>(Stream&, const PermuteGeometry&, const T*, T*); \
  template void PermuteBackward<T>(Stream&, const PermuteGeometry&, const T*, T*);
CARAFE_INSTANTIATE(float)
CARAFE_INSTANTIATE(double)
#undef CARAFE_INSTANTIATE

}  // namespace carafe
