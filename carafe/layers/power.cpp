// y = (shift + scale x)^power
#include "carafe/layers/function_layer.h"

namespace carafe {
namespace {

template <typename T>
class Power final : public FunctionLayer<T> {
 public:
  explicit Power(const LayerSpec& spec)
      : FunctionLayer<T>(spec,
                         {Function::kPower, static_cast<T>(spec.param().power_param().power()),
                          static_cast<T>(spec.param().power_param().scale()),
                          static_cast<T>(spec.param().power_param().shift())}) {}
};

const RegisterLayer<Power> kRegistered{{.type = "Power",
                                        .bottoms = {1, 1},
                                        .tops = {1, 1},
                                        .summary = "(shift + scale x)^power.",
                                        .in_place = true}};

}  // namespace
}  // namespace carafe
