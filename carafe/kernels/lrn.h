// Local response normalisation: sums over windows along an axis, and the powers of them.
#pragma once

#include <cstdint>

#include "carafe/core/stream.h"

namespace carafe {

// y[o, c, i] = sum of x[o, c', i] over |c' - c| <= half, for arrays (outer, n, inner).
template <typename T>
void WindowSum(Stream& stream, int64_t outer, int64_t n, int64_t inner, int64_t half, const T* x,
               T* y);

// scale = k + a * scale (which comes in as a sum of squares);  y = x * scale^-beta
template <typename T>
void LrnForward(Stream& stream, int64_t count, T k, T a, T beta, const T* x, T* scale, T* y);
// ratio = dy * y / scale, whose window sums LrnBackward wants.
template <typename T>
void LrnRatio(Stream& stream, int64_t count, const T* y, const T* dy, const T* scale, T* ratio);
// dx = dy * scale^-beta - 2 a beta x * sums
template <typename T>
void LrnBackward(Stream& stream, int64_t count, T a, T beta, const T* x, const T* dy,
                 const T* scale, const T* sums, T* dx);

}  // namespace carafe
