// C = A B where B is packed first: weights that every step of a recurrent layer multiplies few rows
// by, and its products over all steps. Float, on the CPU; results do not depend on the number of
// threads.
#pragma once

#include <cstdint>

#include "carafe/core/stream.h"
#include "carafe/kernels/gemm.h"

namespace carafe {

// Floats that B (k, n) takes when it is packed.
int64_t PackedCount(int64_t k, int64_t n);
// B is stored as (k, n), or as (n, k) with kTrans.
void PackMatrix(Stream& stream, Op op, int64_t k, int64_t n, const float* b, float* packed);

// What a product is added to: rows of n numbers that lie `step` apart, or nothing.
struct Start {
  const float* rows = nullptr;
  int64_t step = 0;
};
// c (m, n) = start + A B. A is stored as (m, k), or as (k, m) with kTrans. start.rows may be c,
// with step n.
void PackedGemm(Stream& stream, Op op, int64_t m, int64_t n, int64_t k, const float* a,
                const float* packed, Start start, float* c);

// c (m, n) = start + a (m, k) B, where B, stored as above, is used once: each panel of it is packed
// while it is in the cache. For few rows, which all are read again for every panel.
void PanelGemm(Stream& stream, Op op, int64_t m, int64_t n, int64_t k, const float* a,
               const float* b, Start start, float* c);

}  // namespace carafe
