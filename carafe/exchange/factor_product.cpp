#include "carafe/exchange/factor_product.h"

#include <type_traits>

#include "carafe/kernels/gemm.h"
#include "carafe/kernels/packed_gemm.h"
#include "carafe/kernels/small_batch.h"

namespace carafe {
namespace {

SmallBatch BatchOf(const FactorShape& shape) { return {shape.rows, shape.a_width, shape.b_width}; }

}  // namespace

template <typename T>
int64_t ProductMemory(const FactorShape& shape) {
  const bool packs = std::is_same_v<T, float> && !WinsBackwardWeights(BatchOf(shape));
  return packs ? PackedCount(shape.rows, shape.b_width) : 0;
}

template <typename T>
void MultiplyFactors(Stream& stream, const FactorShape& shape, const T* a, const T* b, T* memory,
                     T* gradient) {
  if constexpr (std::is_same_v<T, float>) {
    if (WinsBackwardWeights(BatchOf(shape)))
      return SmallBatchBackwardWeights(stream, BatchOf(shape), a, b, gradient);
    PackMatrix(stream, Op::kNone, shape.rows, shape.b_width, b, memory);
    PackedGemm(stream, Op::kTrans, shape.a_width, shape.b_width, shape.rows, a, memory, {},
               gradient);
  } else {
    Gemm<T>(stream, Op::kTrans, Op::kNone, shape.a_width, shape.b_width, shape.rows, 1, a, b, 0,
            gradient);
  }
}

template int64_t ProductMemory<float>(const FactorShape&);
template int64_t ProductMemory<double>(const FactorShape&);
template void MultiplyFactors(Stream&, const FactorShape&, const float*, const float*, float*,
                              float*);
template void MultiplyFactors(Stream&, const FactorShape&, const double*, const double*, double*,
                              double*);

}  // namespace carafe
