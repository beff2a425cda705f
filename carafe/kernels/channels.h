// Work per channel on arrays (outer, channels, inner): scaling, sums and normalisation.
#pragma once

#include <cstdint>

#include "carafe/core/stream.h"

namespace carafe {

struct ChannelAxis {
  int64_t outer, channels, inner;
  int64_t count() const { return outer * channels * inner; }
  int64_t per_channel() const { return outer * inner; }
};

// y = x * scale_c; y may be x.
template <typename T>
void ScaleChannels(Stream& stream, ChannelAxis axis, const T* scale, const T* x, T* y);
// sums_c += sum of a * b over outer and inner.
template <typename T>
void AddChannelProducts(Stream& stream, ChannelAxis axis, const T* a, const T* b, T* sums);

// mean_c and the biased variance_c over outer and inner.
template <typename T>
void ChannelStatistics(Stream& stream, ChannelAxis axis, const T* x, T* mean, T* variance);
// y = (x - mean_c) * factor_c; y may be x.
template <typename T>
void NormalizeChannels(Stream& stream, ChannelAxis axis, const T* mean, const T* factor, const T* x,
                       T* y);
// factor = 1 / sqrt(variance + eps)
template <typename T>
void InverseDeviation(Stream& stream, int64_t n, T eps, const T* variance, T* factor);
// The gradient of x -> y = (x - mean) / deviation, where both are those of x:
//   dx = (dy - mean(dy) - y mean(dy y)) * factor_c;  dx may be dy
template <typename T>
void NormalizeBackward(Stream& stream, ChannelAxis axis, const T* factor, const T* y, const T* dy,
                       T* dx);
// The same with means that were taken over more than this array:
//   dx = (dy - dy_mean_c - y dyy_mean_c) * factor_c;  dx may be dy
template <typename T>
void NormalizeBackwardBy(Stream& stream, ChannelAxis axis, const T* factor, const T* y,
                         const T* dy_mean, const T* dyy_mean, const T* dy, T* dx);
// Exponential averages: average = keep * average + weight * x
template <typename T>
void Accumulate(Stream& stream, int64_t n, T keep, T weight, const T* x, T* average);

// The same for rows (rows, width): y = (x - mean) * factor_r, factor_r = 1 / (deviation + eps), or
// 1 without `variance`.
template <typename T>
void NormalizeRows(Stream& stream, int64_t rows, int64_t width, bool variance, T eps, const T* x,
                   T* y, T* factor);
// dx = (dy - mean(dy) - y mean(dy y)) * factor_r, or dy - mean(dy).
template <typename T>
void NormalizeRowsBackward(Stream& stream, int64_t rows, int64_t width, bool variance,
                           const T* factor, const T* y, const T* dy, T* dx);

}  // namespace carafe
