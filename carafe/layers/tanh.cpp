// y = tanh x
#include "carafe/layers/function_layer.h"

namespace carafe {
namespace {

template <typename T>
class Tanh final : public FunctionLayer<T> {
 public:
  explicit Tanh(const LayerSpec& spec) : FunctionLayer<T>(spec, {Function::kTanh}) {}
};

const RegisterLayer<Tanh> kRegistered{{.type = "TanH",
                                       .bottoms = {1, 1},
                                       .tops = {1, 1},
                                       .summary = "Hyperbolic tangent.",
                                       .in_place = true}};

}  // namespace
}  // namespace carafe
