// y = max(min, min(x, max)); the gradient passes where min <= x <= max
#include "carafe/layers/function_layer.h"

namespace carafe {
namespace {

template <typename T>
class Clip final : public FunctionLayer<T> {
 public:
  explicit Clip(const LayerSpec& spec)
      : FunctionLayer<T>(spec, {Function::kClip, static_cast<T>(spec.param().clip_param().min()),
                                static_cast<T>(spec.param().clip_param().max())}) {
    const ClipParameter& param = spec.param().clip_param();
    spec.Check(param.has_min() && param.has_max(), "clip_param", "min or max is missing",
               "give both, e.g. clip_param { min: -1 max: 1 }");
    spec.Check(param.min() <= param.max(), "clip_param.min", "min is larger than max",
               "exchange them");
  }
};

const RegisterLayer<Clip> kRegistered{{.type = "Clip",
                                       .bottoms = {1, 1},
                                       .tops = {1, 1},
                                       .summary = "x limited to [min, max].",
                                       .in_place = true}};

}  // namespace
}  // namespace carafe
