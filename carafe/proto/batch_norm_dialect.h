// BatchNorm layers that also scale and shift, in the order of blobs that Carafe and NVCaffe 0.16
// (Caffe-MPI 2.0) have: mean, variance, factor, scale, bias. caffe-parallel and older NVCaffe
// (Caffe-MPI 1.0) write scale, bias, mean, variance, factor.
#pragma once

#include "carafe/proto/messages.h"

namespace carafe {

// Whether the layer has scale and bias of its own.
inline bool ScalesAndShifts(const BatchNormParameter& param) {
  return param.scale_bias() || param.has_scale_filler() || param.has_bias_filler();
}

// `param` entries that begin with a learned scale or bias are put into Carafe's order. Returns
// whether anything was changed; layers of other types never are.
bool ReorderBatchNormParams(LayerParameter* layer);

// Five blobs of which the last, not the third, has one element are put into Carafe's order. The
// forks keep plain statistics and a factor of 0, which then becomes 1.
bool ReorderBatchNormBlobs(LayerParameter* layer);

}  // namespace carafe
