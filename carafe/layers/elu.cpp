// y = x > 0 ? x : alpha (e^x - 1)
#include "carafe/layers/function_layer.h"

namespace carafe {
namespace {

template <typename T>
class Elu final : public FunctionLayer<T> {
 public:
  explicit Elu(const LayerSpec& spec)
      : FunctionLayer<T>(spec, {Function::kElu, static_cast<T>(spec.param().elu_param().alpha())}) {
  }
};

const RegisterLayer<Elu> kRegistered{{.type = "ELU",
                                      .bottoms = {1, 1},
                                      .tops = {1, 1},
                                      .summary = "x, or alpha (e^x - 1) for x < 0.",
                                      .in_place = true}};

}  // namespace
}  // namespace carafe
