#include "carafe/kernels/l2_normalize.h"

#include <cmath>

#include "carafe/kernels/parallel_for.h"

namespace carafe {
namespace {

// Where a vector lies: `channels` pieces of `width` elements, `inner` apart.
struct Pieces {
  int64_t first, width;
  CARAFE_HD Pieces(const VectorAxis& v, int64_t index) {
    const int64_t inner = v.axis.inner, block = v.axis.channels * inner;
    first = v.whole ? index * block : index / inner * block + index % inner;
    width = v.whole ? inner : 1;
  }
};

template <typename T>
struct NormsOp {  // one vector
  VectorAxis v;
  T eps;
  const T* x;
  T* norms;
  CARAFE_HD void operator()(int64_t index) const {
    const Pieces p(v, index);
    T sum = eps;
    for (int64_t c = 0; c < v.axis.channels; ++c) {
      const T* piece = x + p.first + c * v.axis.inner;
      T part = 0;
      for (int64_t i = 0; i < p.width; ++i) part += piece[i] * piece[i];
      sum += part;
    }
    norms[index] = std::sqrt(sum);
  }
};

template <typename T>
struct ForwardOp {  // one run of `inner` elements
  VectorAxis v;
  const T *norms, *scale, *x;
  T* y;
  CARAFE_HD void operator()(int64_t run) const {
    const int64_t inner = v.axis.inner, outer = run / v.axis.channels;
    const T factor = scale[v.shared_scale ? 0 : run % v.axis.channels];
    for (int64_t i = 0; i < inner; ++i) {
      const T norm = norms[v.whole ? outer : outer * inner + i];
      y[run * inner + i] = factor * x[run * inner + i] / norm;
    }
  }
};

template <typename T>
struct BackwardOp {  // one vector
  VectorAxis v;
  const T *norms, *scale, *x, *dy;
  T* dx;
  CARAFE_HD void operator()(int64_t index) const {
    const Pieces p(v, index);
    T dot = 0;
    for (int64_t c = 0; c < v.axis.channels; ++c) {
      const int64_t at = p.first + c * v.axis.inner;
      T part = 0;
      for (int64_t i = at; i < at + p.width; ++i) part += x[i] * dy[i];
      dot += part * scale[v.shared_scale ? 0 : c];
    }
    const T norm = norms[index], along = dot / (norm * norm);
    for (int64_t c = 0; c < v.axis.channels; ++c) {
      const int64_t at = p.first + c * v.axis.inner;
      const T factor = scale[v.shared_scale ? 0 : c];
      for (int64_t i = at; i < at + p.width; ++i) dx[i] = (factor * dy[i] - x[i] * along) / norm;
    }
  }
};

template <typename T>
struct ScaleGradientOp {  // one channel
  VectorAxis v;
  const T *norms, *x, *dy;
  T* sums;
  CARAFE_HD void operator()(int64_t c) const {
    const int64_t inner = v.axis.inner;
    T sum = 0;
    for (int64_t o = 0; o < v.axis.outer; ++o) {
      const int64_t first = (o * v.axis.channels + c) * inner;
      T part = 0;
      for (int64_t i = 0; i < inner; ++i) {
        part += dy[first + i] * x[first + i] / norms[v.whole ? o : o * inner + i];
      }
      sum += part;
    }
    sums[c] = sum;
  }
};

}  // namespace

template <typename T>
void L2Norms(Stream& stream, const VectorAxis& v, T eps, const T* x, T* norms) {
  ParallelFor(stream, v.vectors(), NormsOp<T>{v, eps, x, norms},
              v.axis.channels * (v.whole ? v.axis.inner : 1));
}
template <typename T>
void L2NormalizeForward(Stream& stream, const VectorAxis& v, const T* norms, const T* scale,
                        const T* x, T* y) {
  ParallelFor(stream, v.axis.outer * v.axis.channels, ForwardOp<T>{v, norms, scale, x, y},
              v.axis.inner);
}
template <typename T>
void L2NormalizeBackward(Stream& stream, const VectorAxis& v, const T* norms, const T* scale,
                         const T* x, const T* dy, T* dx) {
  ParallelFor(stream, v.vectors(), BackwardOp<T>{v, norms, scale, x, dy, dx},
              2 * v.axis.channels * (v.whole ? v.axis.inner : 1));
}
template <typename T>
void L2ScaleGradients(Stream& stream, const VectorAxis& v, const T* norms, const T* x, const T* dy,
                      T* sums) {
  ParallelFor(stream, v.axis.channels, ScaleGradientOp<T>{v, norms, x, dy, sums},
              2 * v.axis.per_channel());
}

#define CARAFE_INSTANTIATE(T)                                                                    \
  template void L2Norms<T>(Stream&, const VectorAxis&, T, const T*, T*);                         \
  template void L2NormalizeForward<T>(Stream&, const VectorAxis&, const T*, const T*, const T*,  \
                                      T*);                                                       \
  template void L2NormalizeBackward<T>(Stream&, const VectorAxis&, const T*, const T*, const T*, \
                                       const T*, T*);                                            \
  template void L2ScaleGradients<T>(Stream&, const VectorAxis&, const T*, const T*, const T*, T*);
CARAFE_INSTANTIATE(float)
CARAFE_INSTANTIATE(double)
#undef CARAFE_INSTANTIATE

}  // namespace carafe
