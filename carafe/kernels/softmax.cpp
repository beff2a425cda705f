#include "carafe/kernels/softmax.h"

#include <cmath>
#include <span>

#include "carafe/kernels/block_results.h"
#include "carafe/kernels/parallel_for.h"

namespace carafe {
namespace {

template <typename T>
struct SoftmaxForwardOp {
  ClassAxis axis;
  const T* x;
  T* y;
  CARAFE_HD void operator()(int64_t item) const {
    const int64_t first = axis.first_of(item), step = axis.inner;
    const T* in = x + first;
    T* out = y + first;
    T most = in[0];
    for (int64_t c = 1; c < axis.classes; ++c) most = in[c * step] > most ? in[c * step] : most;
    T sum = 0;
    for (int64_t c = 0; c < axis.classes; ++c) {
      const T e = std::exp(in[c * step] - most);
      out[c * step] = e;
      sum += e;
    }
    for (int64_t c = 0; c < axis.classes; ++c) out[c * step] /= sum;
  }
};

template <typename T>
struct SoftmaxBackwardOp {
  ClassAxis axis;
  const T *y, *dy;
  T* dx;
  CARAFE_HD void operator()(int64_t item) const {
    const int64_t first = axis.first_of(item), step = axis.inner;
    T dot = 0;
    for (int64_t c = 0; c < axis.classes; ++c) dot += dy[first + c * step] * y[first + c * step];
    for (int64_t c = 0; c < axis.classes; ++c) {
      const int64_t i = first + c * step;
      dx[i] = y[i] * (dy[i] - dot);
    }
  }
};

constexpr int64_t kBlock = 4096;

// counts (3 per block): valid labels, the first bad item or -1, its label.
template <typename T>
struct CountLabelsOp {
  int64_t items, classes;
  IgnoredLabel ignore;
  const T* labels;
  double* counts;
  CARAFE_HD void operator()(int64_t block) const {
    const int64_t end = (block + 1) * kBlock < items ? (block + 1) * kBlock : items;
    double valid = 0, bad = -1, bad_label = 0;
    for (int64_t i = block * kBlock; i < end; ++i) {
      const T label = labels[i];
      const bool whole = label > T(-2147483648.0) && label < T(2147483648.0);  // false for NaN
      const int64_t value = whole ? static_cast<int64_t>(label) : -1;
      if (whole && ignore.Matches(value)) continue;
      if (!whole || value < 0 || value >= classes) {
        if (bad < 0) {
          bad = static_cast<double>(i);
          bad_label = static_cast<double>(label);
        }
        continue;
      }
      valid += 1;
    }
    counts[3 * block] = valid;
    counts[3 * block + 1] = bad;
    counts[3 * block + 2] = bad_label;
  }
};

template <typename T>
struct LabelLogLossOp {
  ClassAxis axis;
  IgnoredLabel ignore;
  const T *probabilities, *labels;
  T floor;
  T* losses;
  CARAFE_HD void operator()(int64_t item) const {
    const int64_t label = static_cast<int64_t>(labels[item]);
    if (ignore.Matches(label)) {
      losses[item] = 0;
      return;
    }
    const T p = probabilities[axis.first_of(item) + label * axis.inner];
    losses[item] = -std::log(p < floor ? floor : p);
  }
};

// What the target gives to class c; exactly 0 or 1 without smoothing.
template <typename T>
CARAFE_HD inline T SmoothedTarget(int64_t c, int64_t label, T smoothing, int64_t classes) {
  return smoothing / static_cast<T>(classes) + (c == label ? 1 - smoothing : T(0));
}

template <typename T>
struct SmoothedLogLossOp {
  ClassAxis axis;
  IgnoredLabel ignore;
  const T *probabilities, *labels;
  T smoothing, floor;
  T* losses;
  CARAFE_HD void operator()(int64_t item) const {
    const int64_t label = static_cast<int64_t>(labels[item]), first = axis.first_of(item);
    T loss = 0;
    for (int64_t c = 0; c < axis.classes && !ignore.Matches(label); ++c) {
      const T p = probabilities[first + c * axis.inner];
      loss -= SmoothedTarget(c, label, smoothing, axis.classes) * std::log(p < floor ? floor : p);
    }
    losses[item] = loss;
  }
};

template <typename T>
struct SmoothedLossBackwardOp {
  ClassAxis axis;
  IgnoredLabel ignore;
  const T *probabilities, *labels, *weight;
  T smoothing, normalizer;
  T* dx;
  CARAFE_HD void operator()(int64_t item) const {
    const int64_t first = axis.first_of(item), step = axis.inner;
    const int64_t label = static_cast<int64_t>(labels[item]);
    const T scale = ignore.Matches(label) ? T(0) : weight[0] / normalizer;
    for (int64_t c = 0; c < axis.classes; ++c) {
      const int64_t i = first + c * step;
      const T target = SmoothedTarget(c, label, smoothing, axis.classes);
      dx[i] = scale == 0 ? T(0) : (probabilities[i] - target) * scale;
    }
  }
};

template <typename T>
struct LabelHitsOp {
  ClassAxis axis;
  IgnoredLabel ignore;
  int64_t top_k;
  const T *scores, *labels;
  T* hits;
  CARAFE_HD void operator()(int64_t item) const {
    const int64_t label = static_cast<int64_t>(labels[item]);
    if (ignore.Matches(label)) {
      hits[item] = -1;
      return;
    }
    const T* score = scores + axis.first_of(item);
    const T mine = score[label * axis.inner];
    int64_t ahead = 0;
    for (int64_t c = 0; c < axis.classes; ++c) {
      if (c != label && score[c * axis.inner] >= mine) ++ahead;
    }
    hits[item] = ahead < top_k ? T(1) : T(0);
  }
};

}  // namespace

template <typename T>
void SoftmaxForward(Stream& stream, ClassAxis axis, const T* x, T* y) {
  if (axis.classes == 0) return;
  ParallelFor(stream, axis.items(), SoftmaxForwardOp<T>{axis, x, y}, 8 * axis.classes);
}
template <typename T>
void SoftmaxBackward(Stream& stream, ClassAxis axis, const T* y, const T* dy, T* dx) {
  ParallelFor(stream, axis.items(), SoftmaxBackwardOp<T>{axis, y, dy, dx}, 2 * axis.classes);
}

template <typename T>
LabelCount CountLabels(Stream& stream, ClassAxis axis, const T* labels, const int* ignore) {
  const int64_t blocks = (axis.items() + kBlock - 1) / kBlock;
  LabelCount result;
  if (blocks == 0) return result;
  BlockResults counts(stream, 3 * blocks);
  ParallelFor(
      stream, blocks,
      CountLabelsOp<T>{axis.items(), axis.classes, IgnoredLabel(ignore), labels, counts.data()},
      kBlock);
  const std::span<const double> found = counts.OnHost(stream);
  for (size_t b = 0; b < found.size(); b += 3) {
    result.valid += static_cast<int64_t>(found[b]);
    if (result.bad < 0 && found[b + 1] >= 0) {
      result.bad = static_cast<int64_t>(found[b + 1]);
      result.bad_label = found[b + 2];
    }
  }
  return result;
}

template <typename T>
void LabelLogLoss(Stream& stream, ClassAxis axis, const T* probabilities, const T* labels,
                  const int* ignore, T floor, T* losses) {
  ParallelFor(stream, axis.items(),
              LabelLogLossOp<T>{axis, IgnoredLabel(ignore), probabilities, labels, floor, losses},
              8);
}
template <typename T>
void SoftmaxLossBackward(Stream& stream, ClassAxis axis, const T* probabilities, const T* labels,
                         const int* ignore, const T* weight, T normalizer, T* dx) {
  SmoothedLossBackward<T>(stream, axis, probabilities, labels, ignore, /*smoothing=*/0, weight,
                          normalizer, dx);
}
template <typename T>
void SmoothedLogLoss(Stream& stream, ClassAxis axis, const T* probabilities, const T* labels,
                     const int* ignore, T smoothing, T floor, T* losses) {
  ParallelFor(stream, axis.items(),
              SmoothedLogLossOp<T>{axis, IgnoredLabel(ignore), probabilities, labels, smoothing,
                                   floor, losses},
              8 * axis.classes);
}
template <typename T>
void SmoothedLossBackward(Stream& stream, ClassAxis axis, const T* probabilities, const T* labels,
                          const int* ignore, T smoothing, const T* weight, T normalizer, T* dx) {
  ParallelFor(stream, axis.items(),
              SmoothedLossBackwardOp<T>{axis, IgnoredLabel(ignore), probabilities, labels, weight,
                                        smoothing, normalizer, dx},
              axis.classes);
}
template <typename T>
void LabelHits(Stream& stream, ClassAxis axis, const T* scores, const T* labels, const int* ignore,
               int64_t top_k, T* hits) {
  ParallelFor(stream, axis.items(),
              LabelHitsOp<T>{axis, IgnoredLabel(ignore), top_k, scores, labels, hits},
              axis.classes);
}

#define CARAFE_INSTANTIATE(T)                                                                     \
  template void SoftmaxForward<T>(Stream&, ClassAxis, const T*, T*);                              \
  template void SoftmaxBackward<T>(Stream&, ClassAxis, const T*, const T*, T*);                   \
  template LabelCount CountLabels<T>(Stream&, ClassAxis, const T*, const int*);                   \
  template void LabelLogLoss<T>(Stream&, ClassAxis, const T*, const T*, const int*, T, T*);       \
  template void SoftmaxLossBackward<T>(Stream&, ClassAxis, const T*, const T*, const int*,        \
                                       const T*, T, T*);                                          \
  template void SmoothedLogLoss<T>(Stream&, ClassAxis, const T*, const T*, const int*, T, T, T*); \
  template void SmoothedLossBackward<T>(Stream&, ClassAxis, const T*, const T*, const int*, T,    \
                                        const T*, T, T*);                                         \
  template void LabelHits<T>(Stream&, ClassAxis, const T*, const T*, const int*, int64_t, T*);
CARAFE_INSTANTIATE(float)
CARAFE_INSTANTIATE(double)
#undef CARAFE_INSTANTIATE

}  // namespace carafe
