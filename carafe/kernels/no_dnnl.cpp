// Stands in for dnnl_convolution.cpp where there is no oneDNN.
#include "carafe/kernels/dnnl_convolution.h"

namespace carafe {

std::unique_ptr<DnnlConvolution> DnnlConvolution::Make(const ConvolutionShape&, int) {
  return nullptr;
}

}  // namespace carafe
