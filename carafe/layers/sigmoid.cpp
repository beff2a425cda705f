// y = 1 / (1 + e^-x)
#include "carafe/layers/function_layer.h"

namespace carafe {
namespace {

template <typename T>
class Sigmoid final : public FunctionLayer<T> {
 public:
  explicit Sigmoid(const LayerSpec& spec) : FunctionLayer<T>(spec, {Function::kSigmoid}) {}
};

const RegisterLayer<Sigmoid> kRegistered{{.type = "Sigmoid",
                                          .bottoms = {1, 1},
                                          .tops = {1, 1},
                                          .summary = "1 / (1 + e^-x).",
                                          .in_place = true}};

}  // namespace
}  // namespace carafe
