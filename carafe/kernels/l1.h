// The gradient of the sum of |d|.
#pragma once

#include <cstdint>

#include "carafe/core/stream.h"

namespace carafe {

// dx = factor * weight[0] * sign(d), 0 where d is 0
template <typename T>
void L1Gradient(Stream& stream, int64_t n, T factor, const T* weight, const T* d, T* dx);

}  // namespace carafe
