// The transpose of Convolution: each bottom element adds its filter, scaled, to the top.
//   out = stride (in - 1) + dilation (kernel - 1) + 1 - 2 pad
#include "carafe/layers/convolution_base.h"

namespace carafe {
namespace {

template <typename T>
class Deconvolution final : public ConvolutionBase<T> {
 public:
  explicit Deconvolution(const LayerSpec& spec) : ConvolutionBase<T>(spec, /*transposed=*/true) {}
};

const RegisterLayer<Deconvolution> kRegistered{
    {.type = "Deconvolution",
     .bottoms = {1, Arity::kAny},
     .tops = {1, Arity::kAny},
     .summary = "The transpose of Convolution, e.g. for learned upsampling.",
     .as_many_tops = true}};

}  // namespace
}  // namespace carafe
