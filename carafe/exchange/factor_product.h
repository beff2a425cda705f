// The product that makes a summed gradient of factors.
#pragma once

#include "carafe/exchange/exchange.h"

namespace carafe {

// Elements of the working memory of MultiplyFactors.
template <typename T>
int64_t ProductMemory(const FactorShape& shape);

// gradient (a_width x b_width) = A^T B of row-major A (rows x a_width) and B (rows x b_width). The
// gradient is 0 before. In float the result does not depend on the number of threads, in which
// ranks may differ.
template <typename T>
void MultiplyFactors(Stream& stream, const FactorShape& shape, const T* a, const T* b, T* memory,
                     T* gradient);

}  // namespace carafe
