// The smooth L1 loss of a - b, with d = inside (a - b) and s = sigma^2:
//   f(d) = s d^2 / 2 where |d| < 1 / s, else |d| - 1 / (2 s);   loss = outside f(d)
// `inside` and `outside` are one number per element, or null for 1.
#pragma once

#include <cstdint>

#include "carafe/core/stream.h"

namespace carafe {

// differences = d, losses = outside f(d)
template <typename T>
void SmoothL1Losses(Stream& stream, int64_t n, T s, const T* a, const T* b, const T* inside,
                    const T* outside, T* differences, T* losses);
// dx = factor * weight[0] * inside * outside * f'(d)
template <typename T>
void SmoothL1Gradient(Stream& stream, int64_t n, T s, const T* differences, const T* inside,
                      const T* outside, T factor, const T* weight, T* dx);

}  // namespace carafe
