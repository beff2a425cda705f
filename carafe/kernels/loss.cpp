#include "carafe/kernels/loss.h"

#include <cmath>

#include "carafe/kernels/parallel_for.h"

namespace carafe {
namespace {

template <typename T>
struct ScaleByWeightOp {
  T factor;
  const T *weight, *x;
  T* y;
  CARAFE_HD void operator()(int64_t i) const { y[i] = x[i] * (factor * weight[0]); }
};

template <typename T>
struct HingeMarginsOp {  // one item
  ClassAxis axis;
  const T *x, *labels;
  T* margins;
  CARAFE_HD void operator()(int64_t item) const {
    const int64_t label = static_cast<int64_t>(labels[item]), first = axis.first_of(item);
    for (int64_t c = 0; c < axis.classes; ++c) {
      const int64_t i = first + c * axis.inner;
      const T margin = 1 + (c == label ? -x[i] : x[i]);
      margins[i] = margin > 0 ? margin : T(0);
    }
  }
};
template <typename T>
struct HingeGradientOp {
  ClassAxis axis;
  bool squared;
  const T *margins, *labels, *weight;
  T normalizer;
  T* dx;
  CARAFE_HD void operator()(int64_t item) const {
    const int64_t label = static_cast<int64_t>(labels[item]), first = axis.first_of(item);
    const T scale = weight[0] / normalizer;
    for (int64_t c = 0; c < axis.classes; ++c) {
      const int64_t i = first + c * axis.inner;
      const T slope = squared ? 2 * margins[i] : (margins[i] > 0 ? T(1) : T(0));
      dx[i] = (c == label ? -slope : slope) * scale;
    }
  }
};

template <typename T>
struct SigmoidLossesOp {
  IgnoredLabel ignore;
  const T *x, *targets;
  T *losses, *valid;
  CARAFE_HD void operator()(int64_t i) const {
    const bool counts = !ignore.Matches(targets[i]);
    const T positive = x[i] >= 0 ? T(1) : T(0);
    const T loss =
        std::log(1 + std::exp(x[i] - 2 * x[i] * positive)) - x[i] * (targets[i] - positive);
    losses[i] = counts ? loss : T(0);
    valid[i] = counts ? T(1) : T(0);
  }
};
template <typename T>
struct SigmoidLossGradientOp {
  IgnoredLabel ignore;
  const T *x, *targets, *weight;
  T normalizer;
  T* dx;
  CARAFE_HD void operator()(int64_t i) const {
    const T sigmoid = T(0.5) * std::tanh(T(0.5) * x[i]) + T(0.5);
    dx[i] = ignore.Matches(targets[i]) ? T(0) : (sigmoid - targets[i]) * (weight[0] / normalizer);
  }
};

template <typename T>
struct LabelLogGradientOp {
  ClassAxis axis;
  const T *probabilities, *labels;
  T floor;
  const T* weight;
  T normalizer;
  T* dx;
  CARAFE_HD void operator()(int64_t item) const {
    const int64_t label = static_cast<int64_t>(labels[item]), first = axis.first_of(item);
    const T scale = weight[0] / normalizer;
    for (int64_t c = 0; c < axis.classes; ++c) {
      const int64_t i = first + c * axis.inner;
      const T p = probabilities[i] < floor ? floor : probabilities[i];
      dx[i] = c == label ? -scale / p : T(0);
    }
  }
};

template <typename T>
struct InfogainLossesOp {
  ClassAxis axis;
  IgnoredLabel ignore;
  const T *probabilities, *labels, *h;
  T floor;
  T* losses;
  CARAFE_HD void operator()(int64_t item) const {
    T loss = 0;
    if (!ignore.Matches(labels[item])) {
      const T* row = h + static_cast<int64_t>(labels[item]) * axis.classes;
      const T* p = probabilities + axis.first_of(item);
      for (int64_t c = 0; c < axis.classes; ++c) {
        const T value = p[c * axis.inner];
        loss -= row[c] * std::log(value < floor ? floor : value);
      }
    }
    losses[item] = loss;
  }
};
template <typename T>
struct InfogainGradientOp {
  ClassAxis axis;
  IgnoredLabel ignore;
  const T *probabilities, *labels, *h, *weight;
  T normalizer;
  T* dx;
  CARAFE_HD void operator()(int64_t item) const {
    const int64_t first = axis.first_of(item);
    if (ignore.Matches(labels[item])) {
      for (int64_t c = 0; c < axis.classes; ++c) dx[first + c * axis.inner] = 0;
      return;
    }
    const T* row = h + static_cast<int64_t>(labels[item]) * axis.classes;
    const T scale = weight[0] / normalizer;
    T sum = 0;
    for (int64_t c = 0; c < axis.classes; ++c) sum += row[c];
    for (int64_t c = 0; c < axis.classes; ++c) {
      const int64_t i = first + c * axis.inner;
      dx[i] = (probabilities[i] * sum - row[c]) * scale;
    }
  }
};

template <typename T>
struct ContrastiveLossesOp {
  int64_t width;
  T margin;
  bool legacy;
  const T *a, *b, *similar;
  T *losses, *factors;
  CARAFE_HD void operator()(int64_t row) const {
    T squares = 0;
    for (int64_t i = row * width; i < (row + 1) * width; ++i)
      squares += (a[i] - b[i]) * (a[i] - b[i]);
    if (static_cast<int64_t>(similar[row]) != 0) {
      losses[row] = squares;
      factors[row] = 1;
    } else if (legacy) {
      const T rest = margin - squares;
      losses[row] = rest > 0 ? rest : T(0);
      factors[row] = rest > 0 ? T(-1) : T(0);
    } else {
      const T distance = std::sqrt(squares);
      const T rest = margin - distance;
      losses[row] = rest > 0 ? rest * rest : T(0);
      factors[row] = rest > 0 ? -rest / (distance + T(1e-4)) : T(0);
    }
  }
};
template <typename T>
struct ContrastiveGradientOp {
  int64_t width;
  T sign;
  const T *a, *b, *factors, *weight;
  T normalizer;
  T* dx;
  CARAFE_HD void operator()(int64_t row) const {
    const T scale = sign * factors[row] * (weight[0] / normalizer);
    for (int64_t i = row * width; i < (row + 1) * width; ++i) dx[i] = scale * (a[i] - b[i]);
  }
};

}  // namespace

template <typename T>
void ScaleByWeight(Stream& stream, int64_t n, T factor, const T* weight, const T* x, T* y) {
  ParallelFor(stream, n, ScaleByWeightOp<T>{factor, weight, x, y});
}
template <typename T>
void HingeMargins(Stream& stream, ClassAxis axis, const T* x, const T* labels, T* margins) {
  ParallelFor(stream, axis.items(), HingeMarginsOp<T>{axis, x, labels, margins}, axis.classes);
}
template <typename T>
void HingeGradient(Stream& stream, ClassAxis axis, bool squared, const T* margins, const T* labels,
                   const T* weight, T normalizer, T* dx) {
  ParallelFor(stream, axis.items(),
              HingeGradientOp<T>{axis, squared, margins, labels, weight, normalizer, dx},
              axis.classes);
}
template <typename T>
void SigmoidLosses(Stream& stream, int64_t n, const T* x, const T* targets, const int* ignore,
                   T* losses, T* valid) {
  ParallelFor(stream, n, SigmoidLossesOp<T>{IgnoredLabel(ignore), x, targets, losses, valid}, 16);
}
template <typename T>
void SigmoidLossGradient(Stream& stream, int64_t n, const T* x, const T* targets, const int* ignore,
                         const T* weight, T normalizer, T* dx) {
  ParallelFor(stream, n,
              SigmoidLossGradientOp<T>{IgnoredLabel(ignore), x, targets, weight, normalizer, dx},
              8);
}
template <typename T>
void LabelLogGradient(Stream& stream, ClassAxis axis, const T* probabilities, const T* labels,
                      T floor, const T* weight, T normalizer, T* dx) {
  ParallelFor(stream, axis.items(),
              LabelLogGradientOp<T>{axis, probabilities, labels, floor, weight, normalizer, dx},
              axis.classes);
}
template <typename T>
void InfogainLosses(Stream& stream, ClassAxis axis, const T* probabilities, const T* labels,
                    const int* ignore, const T* h, T floor, T* losses) {
  ParallelFor(
      stream, axis.items(),
      InfogainLossesOp<T>{axis, IgnoredLabel(ignore), probabilities, labels, h, floor, losses},
      8 * axis.classes);
}
template <typename T>
void InfogainGradient(Stream& stream, ClassAxis axis, const T* probabilities, const T* labels,
                      const int* ignore, const T* h, const T* weight, T normalizer, T* dx) {
  ParallelFor(stream, axis.items(),
              InfogainGradientOp<T>{axis, IgnoredLabel(ignore), probabilities, labels, h, weight,
                                    normalizer, dx},
              2 * axis.classes);
}
template <typename T>
void ContrastiveLosses(Stream& stream, int64_t rows, int64_t width, T margin, bool legacy,
                       const T* a, const T* b, const T* similar, T* losses, T* factors) {
  ParallelFor(stream, rows,
              ContrastiveLossesOp<T>{width, margin, legacy, a, b, similar, losses, factors}, width);
}
template <typename T>
void ContrastiveGradient(Stream& stream, int64_t rows, int64_t width, T sign, const T* a,
                         const T* b, const T* factors, const T* weight, T normalizer, T* dx) {
  ParallelFor(stream, rows,
              ContrastiveGradientOp<T>{width, sign, a, b, factors, weight, normalizer, dx}, width);
}

#define CARAFE_INSTANTIATE(T)                                                                      \
  template void ScaleByWeight<T>(Stream&, int64_t, T, const T*, const T*, T*);                     \
  template void HingeMargins<T>(Stream&, ClassAxis, const T*, const T*, T*);                       \
  template void HingeGradient<T>(Stream&, ClassAxis, bool, const T*, const T*, const T*, T, T*);   \
  template void SigmoidLosses<T>(Stream&, int64_t, const T*, const T*, const int*, T*, T*);        \
  template void SigmoidLossGradient<T>(Stream&, int64_t, const T*, const T*, const int*, const T*, \
                                       T, T*);                                                     \
  template void LabelLogGradient<T>(Stream&, ClassAxis, const T*, const T*, T, const T*, T, T*);   \
  template void InfogainLosses<T>(Stream&, ClassAxis, const T*, const T*, const int*, const T*, T, \
                                  T*);                                                             \
  template void InfogainGradient<T>(Stream&, ClassAxis, const T*, const T*, const int*, const T*,  \
                                    const T*, T, T*);                                              \
  template void ContrastiveLosses<T>(Stream&, int64_t, int64_t, T, bool, const T*, const T*,       \
                                     const T*, T*, T*);                                            \
  template void ContrastiveGradient<T>(Stream&, int64_t, int64_t, T, const T*, const T*, const T*, \
                                       const T*, T, T*);
CARAFE_INSTANTIATE(float)
CARAFE_INSTANTIATE(double)
#undef CARAFE_INSTANTIATE

}  // namespace carafe
