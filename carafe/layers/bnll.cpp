// y = log(1 + e^x), a smooth ReLU
#include "carafe/layers/function_layer.h"

namespace carafe {
namespace {

template <typename T>
class Bnll final : public FunctionLayer<T> {
 public:
  explicit Bnll(const LayerSpec& spec) : FunctionLayer<T>(spec, {Function::kBnll}) {}
};

const RegisterLayer<Bnll> kRegistered{{.type = "BNLL",
                                       .bottoms = {1, 1},
                                       .tops = {1, 1},
                                       .summary = "log(1 + e^x).",
                                       .in_place = true}};

}  // namespace
}  // namespace carafe
