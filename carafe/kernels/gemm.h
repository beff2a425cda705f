// Matrix products, row-major: OpenBLAS on the CPU, cuBLAS on a GPU.
#pragma once

#include <cstdint>

#include "carafe/core/stream.h"

namespace carafe {

enum class Op { kNone, kTrans };

// C (m x n) = alpha * op(A) (m x k) * op(B) (k x n) + beta * C.
template <typename T>
void Gemm(Stream& stream, Op a_op, Op b_op, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
          const T* b, T beta, T* c);

// y = alpha * op(A) x + beta * y, A being m x n.
template <typename T>
void Gemv(Stream& stream, Op a_op, int64_t m, int64_t n, T alpha, const T* a, const T* x, T beta,
          T* y);

// The GPU's half, from cuda_gemm.cpp or (never called) no_cuda_gemm.cpp.
template <typename T>
void CudaGemm(Stream& stream, Op a_op, Op b_op, int64_t m, int64_t n, int64_t k, T alpha,
              const T* a, const T* b, T beta, T* c);

}  // namespace carafe
