// The weights' gradient of a convolution with few channels in (a net's first layer), on the CPU in
// float. oneDNN is slow there, or has nothing: its kernels want blocks of 8 channels in.
#pragma once

#include <cstddef>

#include "carafe/kernels/convolution_shape.h"

namespace carafe {

// One group, fewer than 8 channels in; any kernel, stride, pad and dilation.
bool FewChannelsSupports(const ConvolutionShape& shape);

// Aligned to 64 bytes; nothing is kept there between calls.
size_t FewChannelsScratchBytes(const ConvolutionShape& shape, int threads);

// d_weights += the gradient. src is plain NCHW, d_dst nChw8c, d_weights plain OIHW. The result does
// not depend on the number of threads, not in one bit.
void FewChannelsBackwardWeights(int threads, const ConvolutionShape& shape, const float* src,
                                const float* d_dst, float* d_weights, void* scratch);

}  // namespace carafe
