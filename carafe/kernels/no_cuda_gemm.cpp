// Stands in for cuda_gemm.cpp in a build without CUDA: no stream can be on a GPU there.
#include "carafe/base/error.h"
#include "carafe/kernels/gemm.h"
#include "carafe/kernels/gpu_libraries.h"

namespace carafe {

template <typename T>
void CudaGemm(Stream&, Op, Op, int64_t, int64_t, int64_t, T, const T*, const T*, T, T*) {
  throw InternalError("a GPU stream in a build without CUDA");
}

std::vector<GpuLibrary> GpuLibraries() { return {}; }

template void CudaGemm<float>(Stream&, Op, Op, int64_t, int64_t, int64_t, float, const float*,
                              const float*, float, float*);
template void CudaGemm<double>(Stream&, Op, Op, int64_t, int64_t, int64_t, double, const double*,
                               const double*, double, double*);

}  // namespace carafe
