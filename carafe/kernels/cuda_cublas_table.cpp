#include <fmt/format.h>

#include "carafe/base/error.h"
#include "carafe/kernels/cublas_table.h"
#include "carafe/kernels/cuda_library.h"
#include "carafe/kernels/gpu_libraries.h"

// The virtual GPU's build names its own library.
#ifndef CARAFE_CUBLAS_FILE
#define CARAFE_CUBLAS_FILE "libcublas.so.13"
#endif

namespace carafe {
namespace {

CublasTable Load() {
  const CudaLibrary library("cuBLAS", CARAFE_CUBLAS_FILE);
  CublasTable table;
  library.Load("cublasCreate_v2", &table.create);
  library.Load("cublasDestroy_v2", &table.destroy);
  library.Load("cublasSetStream_v2", &table.set_stream);
  library.Load("cublasGetProperty", &table.get_property);
  library.Load("cublasSgemm_v2", &table.sgemm);
  library.Load("cublasDgemm_v2", &table.dgemm);
  return table;
}

GpuLibrary DescribeCublas() {
  try {
    int version[3] = {};
    const libraryPropertyType parts[3] = {MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL};
    for (int i = 0; i < 3; ++i) Cublas().get_property(parts[i], &version[i]);
    return {"cuBLAS", fmt::format("{}.{}.{}", version[0], version[1], version[2]), ""};
  } catch (const ConfigError& error) {
    return {"cuBLAS", "", error.fields().what};
  }
}

}  // namespace

const CublasTable& Cublas() {
  static const CublasTable table = Load();  // tried again by the next call if it throws
  return table;
}

std::vector<GpuLibrary> GpuLibraries() { return {DescribeCublas()}; }

}  // namespace carafe
