#include "carafe/kernels/gemm.h"

#include <cblas.h>
#include <omp.h>

#include <climits>

#include "carafe/base/error.h"

namespace carafe {
namespace {

CBLAS_TRANSPOSE Blas(Op op) { return op == Op::kNone ? CblasNoTrans : CblasTrans; }

int Narrow(int64_t n) {
  Ensure(n <= INT_MAX, "a matrix has more than 2^31-1 rows or columns");
  return static_cast<int>(n);
}

// OpenBLAS (OpenMP flavour) takes its thread count from the calling thread's OpenMP setting.
void UseThreads(const Stream& stream) {
  if (omp_get_max_threads() != stream.threads()) omp_set_num_threads(stream.threads());
}

void CpuGemm(Op a_op, Op b_op, int m, int n, int k, float alpha, const float* a, const float* b,
             float beta, float* c) {
  cblas_sgemm(CblasRowMajor, Blas(a_op), Blas(b_op), m, n, k, alpha, a, a_op == Op::kNone ? k : m,
              b, b_op == Op::kNone ? n : k, beta, c, n);
}

void CpuGemm(Op a_op, Op b_op, int m, int n, int k, double alpha, const double* a, const double* b,
             double beta, double* c) {
  cblas_dgemm(CblasRowMajor, Blas(a_op), Blas(b_op), m, n, k, alpha, a, a_op == Op::kNone ? k : m,
              b, b_op == Op::kNone ? n : k, beta, c, n);
}

void CpuGemv(Op op, int m, int n, float alpha, const float* a, const float* x, float beta,
             float* y) {
  cblas_sgemv(CblasRowMajor, Blas(op), m, n, alpha, a, n, x, 1, beta, y, 1);
}

void CpuGemv(Op op, int m, int n, double alpha, const double* a, const double* x, double beta,
             double* y) {
  cblas_dgemv(CblasRowMajor, Blas(op), m, n, alpha, a, n, x, 1, beta, y, 1);
}

}  // namespace

template <typename T>
void Gemm(Stream& stream, Op a_op, Op b_op, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
          const T* b, T beta, T* c) {
  if (m == 0 || n == 0) return;
  if (!stream.on_cpu()) return CudaGemm<T>(stream, a_op, b_op, m, n, k, alpha, a, b, beta, c);
  UseThreads(stream);
  CpuGemm(a_op, b_op, Narrow(m), Narrow(n), Narrow(k), alpha, a, b, beta, c);
}

template <typename T>
void Gemv(Stream& stream, Op a_op, int64_t m, int64_t n, T alpha, const T* a, const T* x, T beta,
          T* y) {
  if (m == 0 || n == 0) return;
  if (!stream.on_cpu()) {
    const bool plain = a_op == Op::kNone;
    return CudaGemm<T>(stream, a_op, Op::kNone, plain ? m : n, 1, plain ? n : m, alpha, a, x, beta,
                       y);
  }
  UseThreads(stream);
  CpuGemv(a_op, Narrow(m), Narrow(n), alpha, a, x, beta, y);
}

template void Gemm<float>(Stream&, Op, Op, int64_t, int64_t, int64_t, float, const float*,
                          const float*, float, float*);
template void Gemm<double>(Stream&, Op, Op, int64_t, int64_t, int64_t, double, const double*,
                           const double*, double, double*);
template void Gemv<float>(Stream&, Op, int64_t, int64_t, float, const float*, const float*, float,
                          float*);
template void Gemv<double>(Stream&, Op, int64_t, int64_t, double, const double*, const double*,
                           double, double*);

}  // namespace carafe
