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

}  // namespace carafe
