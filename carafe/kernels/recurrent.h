// The cell of an LSTM, and what recurrent layers need besides products.
#pragma once

#include <cstdint>

#include "carafe/core/stream.h"

namespace carafe {

// y[r, i] = factor[r] * x[r, i]; y may be x.
template <typename T>
void ScaleRows(Stream& stream, int64_t rows, int64_t width, const T* factor, const T* x, T* y);

// One step for `rows` sequences of `width` cells. gates (rows, 4 width) hold the sums for i, f, o,
// g and become the activations  i = s(i), f = cont s(f), o = s(o), g = tanh(g), s being the
// sigmoid;
//   c = f c_prev + i g,   h = o tanh(c)
template <typename T>
void LstmForward(Stream& stream, int64_t rows, int64_t width, const T* c_prev, const T* cont,
                 T* gates, T* c, T* h);
// dgates from the activations, dh and dc (the gradient that comes to c from later steps); dc_prev
// may be dc.
template <typename T>
void LstmBackward(Stream& stream, int64_t rows, int64_t width, const T* c_prev, const T* gates,
                  const T* c, const T* dh, const T* dc, T* dc_prev, T* dgates);

}  // namespace carafe
