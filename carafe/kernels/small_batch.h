// Products with a large matrix of weights W (width, inner) and few rows: what a fully connected
// layer does at the batches of large nets. W is read (or its gradient updated) once and never
// copied, which a general matrix product does first. Float, on the CPU; results do not depend on
// the number of threads.
#pragma once

#include <cstdint>
#include <functional>

#include "carafe/core/stream.h"

namespace carafe {

struct SmallBatch {
  int64_t rows, width, inner;
};

// Whether the functions below, which need a row, are faster than Gemm
// (docs/decisions/0036-small-batches.md).
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
// The same dW, from 0, in parts that are never in memory together: element `first` and those that
// follow. Called by several threads at a time, each with a stream of its own; the taker leaves
// zeros.
using WeightPart = std::function<void(Stream& own, int64_t first, int64_t count, float* part)>;
void SmallBatchWeightParts(Stream& stream, const SmallBatch& s, const float* dy, const float* x,
                           const WeightPart& take);

}  // namespace carafe
