// Softmax over one axis of (outer, classes, inner), the losses and scores that read it by label.
// A label array has outer * inner elements: numbers whose integer part is the class.
#pragma once

#include <cstdint>

#include "carafe/core/stream.h"
#include "carafe/kernels/class_axis.h"

namespace carafe {

// y = exp(x - max) / sum of it, over the classes. x may be y.
template <typename T>
void SoftmaxForward(Stream& stream, ClassAxis axis, const T* x, T* y);
// dx = y (dy - sum over the classes of dy y). dx may be dy.
template <typename T>
void SoftmaxBackward(Stream& stream, ClassAxis axis, const T* y, const T* dy, T* dx);

// What a loss must know of its labels.
struct LabelCount {
  int64_t valid = 0;  // not ignored
  int64_t bad = -1;   // the first item whose label is neither a class nor ignored; -1: none
  double bad_label = 0;
};
// Waits for the stream. `ignore` may be null.
template <typename T>
LabelCount CountLabels(Stream& stream, ClassAxis axis, const T* labels, const int* ignore);

// losses[item] = -log(max(probability of the label, floor)), 0 where ignored. Labels must be good.
template <typename T>
void LabelLogLoss(Stream& stream, ClassAxis axis, const T* probabilities, const T* labels,
                  const int* ignore, T floor, T* losses);
// dx = (p - [class is the label]) * weight[0] / normalizer, 0 where ignored.
template <typename T>
void SoftmaxLossBackward(Stream& stream, ClassAxis axis, const T* probabilities, const T* labels,
                         const int* ignore, const T* weight, T normalizer, T* dx);

// The same against a target that gives every class smoothing / classes and the label the rest:
// losses[item] = -sum over c of target_c log(max(p_c, floor)); dx = (p - target) * ..
template <typename T>
void SmoothedLogLoss(Stream& stream, ClassAxis axis, const T* probabilities, const T* labels,
                     const int* ignore, T smoothing, T floor, T* losses);
template <typename T>
void SmoothedLossBackward(Stream& stream, ClassAxis axis, const T* probabilities, const T* labels,
                          const int* ignore, T smoothing, const T* weight, T normalizer, T* dx);

// hits[item] = 1 if fewer than top_k other classes score at least as high as the label, 0 if not,
// -1 where ignored.
template <typename T>
void LabelHits(Stream& stream, ClassAxis axis, const T* scores, const T* labels, const int* ignore,
               int64_t top_k, T* hits);

}  // namespace carafe
