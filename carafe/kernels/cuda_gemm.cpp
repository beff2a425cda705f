// Gemm through cuBLAS; CUDA builds only. One handle per thread and device.
#include <climits>
#include <map>
#include <memory>

#include "carafe/base/error.h"
#include "carafe/core/cuda_runtime.h"
#include "carafe/kernels/cublas_table.h"
#include "carafe/kernels/gemm.h"

namespace carafe {
namespace {

struct HandleDeleter {
  void operator()(cublasContext* handle) const { Cublas().destroy(handle); }
};

cublasHandle_t HandleFor(Stream& stream) {
  thread_local std::map<int, std::unique_ptr<cublasContext, HandleDeleter>> handles;  // by device
  auto& handle = handles[UseDeviceOf(stream)];
  if (!handle) {
    cublasHandle_t raw = nullptr;
    Ensure(Cublas().create(&raw) == CUBLAS_STATUS_SUCCESS, "cuBLAS did not start");
    handle.reset(raw);
  }
  Ensure(Cublas().set_stream(handle.get(), static_cast<cudaStream_t>(stream.native())) ==
             CUBLAS_STATUS_SUCCESS,
         "cuBLAS refused the stream");
  return handle.get();
}

cublasOperation_t Blas(Op op) { return op == Op::kNone ? CUBLAS_OP_N : CUBLAS_OP_T; }

cublasStatus_t ColumnMajor(cublasHandle_t h, Op a, Op b, int m, int n, int k, const float* alpha,
                           const float* pa, int lda, const float* pb, int ldb, const float* beta,
                           float* c, int ldc) {
  return Cublas().sgemm(h, Blas(a), Blas(b), m, n, k, alpha, pa, lda, pb, ldb, beta, c, ldc);
}

cublasStatus_t ColumnMajor(cublasHandle_t h, Op a, Op b, int m, int n, int k, const double* alpha,
                           const double* pa, int lda, const double* pb, int ldb, const double* beta,
                           double* c, int ldc) {
  return Cublas().dgemm(h, Blas(a), Blas(b), m, n, k, alpha, pa, lda, pb, ldb, beta, c, ldc);
}

}  // namespace

// cuBLAS is column-major: C^T = op(B)^T op(A)^T.
template <typename T>
void CudaGemm(Stream& stream, Op a_op, Op b_op, int64_t m, int64_t n, int64_t k, T alpha,
              const T* a, const T* b, T beta, T* c) {
  Ensure(m <= INT_MAX && n <= INT_MAX && k <= INT_MAX, "a matrix is too large for cuBLAS");
  const int lda = static_cast<int>(a_op == Op::kNone ? k : m);
  const int ldb = static_cast<int>(b_op == Op::kNone ? n : k);
  const cublasStatus_t status =
      ColumnMajor(HandleFor(stream), b_op, a_op, static_cast<int>(n), static_cast<int>(m),
                  static_cast<int>(k), &alpha, b, ldb, a, lda, &beta, c, static_cast<int>(n));
  CheckLaunch(stream);  // a lost device, most often
  Ensure(status == CUBLAS_STATUS_SUCCESS, "cuBLAS failed in a matrix product");
}

template void CudaGemm<float>(Stream&, Op, Op, int64_t, int64_t, int64_t, float, const float*,
                              const float*, float, float*);
template void CudaGemm<double>(Stream&, Op, Op, int64_t, int64_t, int64_t, double, const double*,
                               const double*, double, double*);

}  // namespace carafe
