// y = W * x + b: cross-correlation over any number of spatial axes, in groups of channels.
//   out = floor((in + 2 pad - dilation (kernel - 1) - 1) / stride) + 1
#include "carafe/layers/convolution_base.h"

namespace carafe {
namespace {

template <typename T>
class Convolution final : public ConvolutionBase<T> {
 public:
  explicit Convolution(const LayerSpec& spec) : ConvolutionBase<T>(spec, /*transposed=*/false) {}
};

const RegisterLayer<Convolution> kRegistered{
    {.type = "Convolution",
     .bottoms = {1, Arity::kAny},
     .tops = {1, Arity::kAny},
     .summary = "Cross-correlation with learned filters over any number of spatial axes.",
     .as_many_tops = true}};

}  // namespace
}  // namespace carafe
