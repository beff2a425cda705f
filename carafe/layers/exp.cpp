// y = base^(shift + scale x) = base^shift e^(scale ln(base) x); base -1 means e
#include <fmt/format.h>

#include <cmath>

#include "carafe/layers/function_layer.h"

namespace carafe {
namespace {

template <typename T>
class Exp final : public FunctionLayer<T> {
 public:
  explicit Exp(const LayerSpec& spec) : FunctionLayer<T>(spec, FunctionFrom(spec)) {}

 private:
  static FunctionOf<T> FunctionFrom(const LayerSpec& spec) {
    const ExpParameter& param = spec.param().exp_param();
    spec.Check(param.base() == -1 || param.base() > 0, "exp_param.base",
               fmt::format("base is {}", param.base()), "use a positive base, or -1 for e");
    const double log_base = param.base() == -1 ? 1 : std::log(static_cast<double>(param.base()));
    return {Function::kExp, static_cast<T>(std::exp(log_base * param.shift())),
            static_cast<T>(log_base * param.scale())};
  }
};

const RegisterLayer<Exp> kRegistered{{.type = "Exp",
                                      .bottoms = {1, 1},
                                      .tops = {1, 1},
                                      .summary = "base^(shift + scale x).",
                                      .in_place = true}};

}  // namespace
}  // namespace carafe
