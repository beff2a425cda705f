// Vectors of length 1, scaled: y = scale x / |x|. The vectors of an array (outer, channels, inner)
// are its channels at each place, or all that belongs to one outer index.
#pragma once

#include <cstdint>

#include "carafe/core/stream.h"
#include "carafe/kernels/channels.h"

namespace carafe {

struct VectorAxis {
  ChannelAxis axis;
  bool whole;         // one vector per outer index; else per outer and inner one
  bool shared_scale;  // one scale; else one per channel
  int64_t vectors() const { return whole ? axis.outer : axis.outer * axis.inner; }
};

// norms[v] = sqrt(eps + sum of x^2)
template <typename T>
void L2Norms(Stream& stream, const VectorAxis& v, T eps, const T* x, T* norms);
// y = scale x / norm
template <typename T>
void L2NormalizeForward(Stream& stream, const VectorAxis& v, const T* norms, const T* scale,
                        const T* x, T* y);
// dx = (scale dy - x (x . scale dy) / norm^2) / norm
template <typename T>
void L2NormalizeBackward(Stream& stream, const VectorAxis& v, const T* norms, const T* scale,
                         const T* x, const T* dy, T* dx);
// sums[c] = sum over the channel of dy x / norm: the gradient of its scale
template <typename T>
void L2ScaleGradients(Stream& stream, const VectorAxis& v, const T* norms, const T* x, const T* dy,
                      T* sums);

}  // namespace carafe
