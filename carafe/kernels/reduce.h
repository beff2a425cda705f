// Rows to numbers: sums of each row, and the positions of its largest elements.
#pragma once

#include <cstdint>

#include "carafe/core/stream.h"
#include "carafe/kernels/class_axis.h"

namespace carafe {

enum class RowSum { kValue, kAbs, kSquare };

// y[r] = factor * sum over the row of x, |x| or x^2
template <typename T>
void SumRows(Stream& stream, RowSum kind, int64_t rows, int64_t width, T factor, const T* x, T* y);
// dx = factor * dy[r] * (1, sign(x) or 2 x)
template <typename T>
void SumRowsBackward(Stream& stream, RowSum kind, int64_t rows, int64_t width, T factor, const T* x,
                     const T* dy, T* dx);

// The k largest of the classes of each item, in falling order (of equals the larger index first),
// written as (outer, k, inner) arrays. Either may be null. k is meant to be small: k passes.
template <typename T>
void Largest(Stream& stream, ClassAxis axis, int64_t k, const T* x, T* indices, T* values);

}  // namespace carafe
