// Moves rectangular blocks between arrays: what Concat, Slice, Crop and Tile are made of.
#pragma once

#include <cstdint>

#include "carafe/core/stream.h"

namespace carafe {

// y[r * y_step + i] = x[r * x_step + i] for r < rows, i < width.
template <typename T>
void CopyBlock(Stream& stream, int64_t rows, int64_t width, const T* x, int64_t x_step, T* y,
               int64_t y_step);
// Adds instead.
template <typename T>
void AddBlock(Stream& stream, int64_t rows, int64_t width, const T* x, int64_t x_step, T* y,
              int64_t y_step);

// Rows by index: y[r] = x[index[r]], rows of `width` elements; indices are whole numbers in range.
template <typename T, typename I>
void GatherRows(Stream& stream, int64_t rows, int64_t width, const I* index, const T* x, T* y);
// y[index[r]] += x[r], in the order of r.
template <typename T, typename I>
void ScatterAddRows(Stream& stream, int64_t rows, int64_t width, const I* index, const T* x, T* y);

constexpr int kMaxWindowAxes = 32;

// A part of an array of shape `in` that starts at `offset` and has shape `out`.
struct WindowGeometry {
  int axes = 0;
  int64_t in[kMaxWindowAxes] = {}, out[kMaxWindowAxes] = {}, offset[kMaxWindowAxes] = {};
};
// y = that part of x.
template <typename T>
void CopyWindow(Stream& stream, const WindowGeometry& g, const T* x, T* y);
// That part of x = y.
template <typename T>
void PasteWindow(Stream& stream, const WindowGeometry& g, const T* y, T* x);

}  // namespace carafe
