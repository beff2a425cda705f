// y = log_base(shift + scale x); base -1 means e
#include <fmt/format.h>

#include <cmath>

#include "carafe/layers/function_layer.h"

namespace carafe {
namespace {

template <typename T>
class Log final : public FunctionLayer<T> {
 public:
  explicit Log(const LayerSpec& spec) : FunctionLayer<T>(spec, FunctionFrom(spec)) {}

 private:
  static FunctionOf<T> FunctionFrom(const LayerSpec& spec) {
    const LogParameter& param = spec.param().log_param();
    spec.Check(param.base() == -1 || (param.base() > 0 && param.base() != 1), "log_param.base",
               fmt::format("base is {}", param.base()),
               "use a positive base other than 1, or -1 for e");
    const double log_base = param.base() == -1 ? 1 : std::log(static_cast<double>(param.base()));
    return {Function::kLog, static_cast<T>(1 / log_base), static_cast<T>(param.scale()),
            static_cast<T>(param.shift())};
  }
};

const RegisterLayer<Log> kRegistered{{.type = "Log",
                                      .bottoms = {1, 1},
                                      .tops = {1, 1},
                                      .summary = "log_base(shift + scale x).",
                                      .in_place = true}};

}  // namespace
}  // namespace carafe
