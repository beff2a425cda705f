// Products with a large matrix of weights W (width, inner) and few rows: what a fully connected
// layer does at the batches of large nets. W is read (or its gradient updated) once and never
// copied, which a general matrix product does first. Float, on the CPU; results do not depend on
// the number of threads.
#pragma once

#include <cstdint>

#include "carafe/core/stream.h"

namespace carafe {

struct SmallBatch {
  int64_t rows, width, inner;
};

// Whether the functions below are faster than Gemm (docs/decisions/0036-small-batches.md).
bool WinsForward(const SmallBatch& s);
bool WinsBackwardData(const SmallBatch& s);
bool WinsBackwardWeights(const SmallBatch& s);

// y (rows, width) = x (rows, inner) W^T + bias, which may be null.
void SmallBatchForward(Stream& stream, const SmallBatch& s, const float* x, const float* w,
                       const float* bias, float* y);
// dx (rows, inner) = dy (rows, width) W
void SmallBatchBackwardData(Stream& stream, const SmallBatch& s, const float* dy, const float* w,
                            float* dx);
// dW += dy^T x
void SmallBatchBackwardWeights(Stream& stream, const SmallBatch& s, const float* dy, const float* x,
                               float* dw);

}  // namespace carafe
