// The functions of cuBLAS that Carafe calls, from the library that dlopen finds. CUDA and
// virtual-GPU builds only.
#pragma once

#include <cublas_v2.h>

#include <string>

namespace carafe {

struct CublasTable {
  decltype(&cublasCreate_v2) create = nullptr;
  decltype(&cublasDestroy_v2) destroy = nullptr;
  decltype(&cublasSetStream_v2) set_stream = nullptr;
  decltype(&cublasGetProperty) get_property = nullptr;
  decltype(&cublasSgemm_v2) sgemm = nullptr;
  decltype(&cublasDgemm_v2) dgemm = nullptr;
};

// Loaded at the first call, by one thread; throws ConfigError, with what dlopen said, if that
// fails.
const CublasTable& Cublas();

}  // namespace carafe
