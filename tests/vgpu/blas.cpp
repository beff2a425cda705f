// cuBLAS: matrix products by OpenBLAS, when the stream gets there.
#include <cblas.h>
#include <cublas_v2.h>

#include <mutex>

#include "tests/vgpu/calls.h"
#include "tests/vgpu/report.h"

using namespace carafe::vgpu;  // NOLINT: CUDA's functions are global

struct cublasContext {
  VirtualDevice* device;
  cudaStream_t stream;
};

namespace {

CBLAS_TRANSPOSE Blas(cublasOperation_t op) {
  if (op != CUBLAS_OP_N && op != CUBLAS_OP_T) Die("cuBLAS: an operation that is not emulated");
  return op == CUBLAS_OP_N ? CblasNoTrans : CblasTrans;
}

void Product(CBLAS_TRANSPOSE a_op, CBLAS_TRANSPOSE b_op, int m, int n, int k, float alpha,
             const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc) {
  cblas_sgemm(CblasColMajor, a_op, b_op, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void Product(CBLAS_TRANSPOSE a_op, CBLAS_TRANSPOSE b_op, int m, int n, int k, double alpha,
             const double* a, int lda, const double* b, int ldb, double beta, double* c, int ldc) {
  cblas_dgemm(CblasColMajor, a_op, b_op, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

// Of a column-major matrix with `columns` columns of `rows` elements.
size_t BytesOf(int rows, int columns, int stride, size_t element) {
  if (stride < rows) Die("cuBLAS: a leading dimension is smaller than the number of rows");
  return columns == 0 ? 0
                      : (static_cast<size_t>(columns - 1) * static_cast<size_t>(stride) +
                         static_cast<size_t>(rows)) *
                            element;
}

template <typename T>
cublasStatus_t Gemm(cublasHandle_t handle, cublasOperation_t a_op, cublasOperation_t b_op, int m,
                    int n, int k, const T* alpha, const T* a, int lda, const T* b, int ldb,
                    const T* beta, T* c, int ldc) {
  Scheduler& scheduler = Scheduler::Get();
  const auto lock = scheduler.Lock();
  Queue& queue = QueueOf(handle->stream, "a matrix product");
  const VirtualDevice& device = *queue.device;
  if (device.broken != cudaSuccess) {
    Keep(device.broken);
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  if (handle->device != &device) return CUBLAS_STATUS_NOT_INITIALIZED;
  const bool a_plain = a_op == CUBLAS_OP_N, b_plain = b_op == CUBLAS_OP_N;
  const DeviceMemory& memory = device.memory;
  memory.CheckRange(a, BytesOf(a_plain ? m : k, a_plain ? k : m, lda, sizeof(T)), "matrix A");
  memory.CheckRange(b, BytesOf(b_plain ? k : n, b_plain ? n : k, ldb, sizeof(T)), "matrix B");
  memory.CheckRange(c, BytesOf(m, n, ldc, sizeof(T)), "matrix C");
  ++scheduler.counts().launches;
  scheduler.Add(queue, {"a matrix product",
                        [=, a_op = Blas(a_op), b_op = Blas(b_op), alpha = *alpha, beta = *beta] {
                          Product(a_op, b_op, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
                        },
                        nullptr});
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  const auto lock = Scheduler::Get().Lock();
  if (CurrentDevice().broken != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new cublasContext{&CurrentDevice(), nullptr};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  const auto lock = Scheduler::Get().Lock();
  QueueOf(stream, "cublasSetStream");
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetProperty(libraryPropertyType part, int* value) {
  *value = part == MAJOR_VERSION ? 13 : 0;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t a_op, cublasOperation_t b_op,
                              int m, int n, int k, const float* alpha, const float* a, int lda,
                              const float* b, int ldb, const float* beta, float* c, int ldc) {
  return Gemm(handle, a_op, b_op, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

cublasStatus_t cublasDgemm_v2(cublasHandle_t handle, cublasOperation_t a_op, cublasOperation_t b_op,
                              int m, int n, int k, const double* alpha, const double* a, int lda,
                              const double* b, int ldb, const double* beta, double* c, int ldc) {
  return Gemm(handle, a_op, b_op, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

}  // extern "C"
