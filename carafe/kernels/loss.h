// The losses: values per item, and gradients. `weight` is one number on the device, the gradient of
// the loss; every gradient is multiplied by weight[0] / normalizer.
#pragma once

#include <cstdint>

#include "carafe/core/stream.h"
#include "carafe/kernels/class_axis.h"

namespace carafe {

// y = x * factor * weight[0]; x may be y.
template <typename T>
void ScaleByWeight(Stream& stream, int64_t n, T factor, const T* weight, const T* x, T* y);

// Hinge: margins = max(0, 1 - t x), t being 1 for the label's class and -1 for all others; the
// gradient is -t (L1) or -2 t margin (L2) where the margin is positive.
template <typename T>
void HingeMargins(Stream& stream, ClassAxis axis, const T* x, const T* labels, T* margins);
template <typename T>
void HingeGradient(Stream& stream, ClassAxis axis, bool squared, const T* margins, const T* labels,
                   const T* weight, T normalizer, T* dx);

// losses = -t log(sigmoid(x)) - (1 - t) log(1 - sigmoid(x)), valid = 1; both 0 where t is ignored.
template <typename T>
void SigmoidLosses(Stream& stream, int64_t n, const T* x, const T* targets, const int* ignore,
                   T* losses, T* valid);
// dx = (sigmoid(x) - t), 0 where ignored
template <typename T>
void SigmoidLossGradient(Stream& stream, int64_t n, const T* x, const T* targets, const int* ignore,
                         const T* weight, T normalizer, T* dx);

// dx = -1 / max(p, floor) for the label's class, 0 for the others
template <typename T>
void LabelLogGradient(Stream& stream, ClassAxis axis, const T* probabilities, const T* labels,
                      T floor, const T* weight, T normalizer, T* dx);

// Infogain, with the matrix h (classes x classes): losses[item] = -sum over c of
// h[label, c] log(max(p_c, floor)); dx = p_c * (sum of row `label` of h) - h[label, c].
template <typename T>
void InfogainLosses(Stream& stream, ClassAxis axis, const T* probabilities, const T* labels,
                    const int* ignore, const T* h, T floor, T* losses);
template <typename T>
void InfogainGradient(Stream& stream, ClassAxis axis, const T* probabilities, const T* labels,
                      const int* ignore, const T* h, const T* weight, T normalizer, T* dx);

// Contrastive, for rows a and b (width) that are similar or not: with d = |a - b| the loss is d^2
// or max(margin - d, 0)^2 (legacy: max(margin - d^2, 0)). Gives the losses and the factors by which
// a - b becomes the gradient of half of it.
template <typename T>
void ContrastiveLosses(Stream& stream, int64_t rows, int64_t width, T margin, bool legacy,
                       const T* a, const T* b, const T* similar, T* losses, T* factors);
// dx = sign * factor_row * (a - b)
template <typename T>
void ContrastiveGradient(Stream& stream, int64_t rows, int64_t width, T sign, const T* a,
                         const T* b, const T* factors, const T* weight, T normalizer, T* dx);

}  // namespace carafe
