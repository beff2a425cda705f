// y = min(max(0, x), 6). May run in place; the gradient passes where 0 < x < 6.
#include "carafe/layers/function_layer.h"

namespace carafe {
namespace {

template <typename T>
class Relu6 final : public FunctionLayer<T> {
 public:
  explicit Relu6(const LayerSpec& spec) : FunctionLayer<T>(spec, {Function::kRelu6, T(6)}) {}
};

const RegisterLayer<Relu6> kRegistered{{.type = "ReLU6",
                                        .bottoms = {1, 1},
                                        .tops = {1, 1},
                                        .summary = "min(max(0, x), 6) (MobileNet).",
                                        .in_place = true}};

}  // namespace
}  // namespace carafe
