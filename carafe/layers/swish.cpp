// y = x / (1 + e^-(beta x))
#include "carafe/layers/function_layer.h"

namespace carafe {
namespace {

template <typename T>
class Swish final : public FunctionLayer<T> {
 public:
  explicit Swish(const LayerSpec& spec)
      : FunctionLayer<T>(spec,
                         {Function::kSwish, static_cast<T>(spec.param().swish_param().beta())}) {}
};

const RegisterLayer<Swish> kRegistered{{.type = "Swish",
                                        .bottoms = {1, 1},
                                        .tops = {1, 1},
                                        .summary = "x sigmoid(beta x).",
                                        .in_place = true}};

}  // namespace
}  // namespace carafe
