// The cells of an LSTM (kernels/recurrent.h) in float on the CPU, eight at a time.
#pragma once

#include <cstdint>

#include "carafe/core/stream.h"

namespace carafe {

void CpuLstmForward(Stream& stream, int64_t rows, int64_t width, const float* c_prev,
                    const float* cont, float* gates, float* c, float* h);
void CpuLstmBackward(Stream& stream, int64_t rows, int64_t width, const float* c_prev,
                     const float* gates, const float* c, const float* dh, const float* dc,
                     float* dc_prev, float* dgates);

}  // namespace carafe
