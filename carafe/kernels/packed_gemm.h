// C = A B where B is used many times and so is packed once: the steps of a recurrent layer, which
// all multiply few rows by the same weights. Float, on the CPU; results do not depend on the number
// of threads.
#pragma once

#include <cstdint>

#include "carafe/core/stream.h"
#include "carafe/kernels/gemm.h"

namespace carafe {

// Floats that B (k, n) takes when it is packed.
int64_t PackedCount(int64_t k, int64_t n);
// B is stored as (k, n), or as (n, k) with kTrans.
void PackMatrix(Stream& stream, Op op, int64_t k, int64_t n, const float* b, float* packed);
// c (m, n) = a (m, k) B, or c += a B.
void PackedGemm(Stream& stream, int64_t m, int64_t n, int64_t k, const float* a,
                const float* packed, bool add, float* c);

}  // namespace carafe
