// Plain vector kernels: each is one pass over memory. All pointers lie on the stream's device.
#pragma once

#include <cstdint>

#include "carafe/core/stream.h"

namespace carafe {

template <typename T>
void Fill(Stream& stream, int64_t n, T value, T* y);  // y = value
template <typename T>
void Axpy(Stream& stream, int64_t n, T a, const T* x, T* y);  // y += a x
template <typename T>
void Scale(Stream& stream, int64_t n, T a, const T* x, T* y);  // y = a x (x may be y)
template <typename T>
void Add(Stream& stream, int64_t n, const T* a, const T* b, T* y);  // y = a + b
template <typename T>
void Multiply(Stream& stream, int64_t n, const T* a, const T* b,
              T* y);  // y = a b, element by element

// Y (rows x width) += the vector b (width) in every row.
template <typename T>
void AddToRows(Stream& stream, int64_t rows, int64_t width, const T* b, T* y);
// b (width) += sum over the rows of Y (rows x width).
template <typename T>
void AddColumnSums(Stream& stream, int64_t rows, int64_t width, const T* y, T* b);
// Y (outer x channels x inner) += b (channels), and b += sums of Y over outer and inner.
template <typename T>
void AddToChannels(Stream& stream, int64_t outer, int64_t channels, int64_t inner, const T* b,
                   T* y);
template <typename T>
void AddChannelSums(Stream& stream, int64_t outer, int64_t channels, int64_t inner, const T* y,
                    T* b);

// Sums as the host's double, in blocks of a fixed size added in order: the same bits for any number
// of threads. They wait for the stream.
template <typename T>
double Sum(Stream& stream, int64_t n, const T* x);
template <typename T>
double SumOfAbs(Stream& stream, int64_t n, const T* x);
template <typename T>
double SumOfSquares(Stream& stream, int64_t n, const T* x);
template <typename T>
double Dot(Stream& stream, int64_t n, const T* x, const T* y);
// Whether no element is NaN or infinite. Waits for the stream.
template <typename T>
bool AllFinite(Stream& stream, int64_t n, const T* x);

}  // namespace carafe
