// Several arrays into one, element by element: products and maxima.
#pragma once

#include <cstdint>

#include "carafe/core/stream.h"

namespace carafe {

// y = c0 a + c1 b; y may be a or b.
template <typename T>
void WeightedAdd(Stream& stream, int64_t n, T c0, const T* a, T c1, const T* b, T* y);
// y = max(0, c0 a + c1 b); y may be a or b. And its gradients, da = c0 dy where y > 0, else 0, and
// db likewise; da may be dy.
template <typename T>
void WeightedAddRelu(Stream& stream, int64_t n, T c0, const T* a, T c1, const T* b, T* y);
template <typename T>
void WeightedAddReluGradient(Stream& stream, int64_t n, const T* y, const T* dy, T c0, T* da, T c1,
                             T* db);
// y = dy * y_all / x: the gradient of a product by one of its factors, which must not be 0.
template <typename T>
void QuotientGradient(Stream& stream, int64_t n, const T* x, const T* y_all, const T* dy, T* dx);

// y = max(a, b), which = 0 where a > b, else 1; y may be a or b.
template <typename T>
void MaxOfTwo(Stream& stream, int64_t n, const T* a, const T* b, T* y, int32_t* which);
// Where x > y: y = x, which = index.
template <typename T>
void MaxWith(Stream& stream, int64_t n, const T* x, int32_t index, T* y, int32_t* which);
// dx = dy where which is index, else 0; dx may be dy.
template <typename T>
void SelectGradient(Stream& stream, int64_t n, const int32_t* which, int32_t index, const T* dy,
                    T* dx);

}  // namespace carafe
