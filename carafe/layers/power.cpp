// y = (shift + scale x)^power
#include "carafe/base/log.h"
#include "carafe/kernels/math.h"
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

  // In place with power 1 the original writes scale over dy before it multiplies by it, so dx is
  // scale^2 whatever comes from above. Nets that were trained so keep that, with a line about it
  // (docs/decisions/0008).
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    const PowerParameter& param = this->spec().param().power_param();
    const bool as_the_original = bottom[0]->SharesDataWith(*top[0]) && param.power() == 1;
    if (!as_the_original) {
      FunctionLayer<T>::Backward(run, top, propagate_down, bottom);
    } else if (propagate_down[0]) {
      if (!warned_) {
        LogWarning(
            "layer \"{}\" (Power) works in place: its gradient is {}, whatever comes from above, "
            "as in "
            "Caffe; give it a top of its own for the right one",
            this->spec().name(), param.scale() * param.scale());
        warned_ = true;
      }
      Fill(run.stream, bottom[0]->count(), static_cast<T>(param.scale() * param.scale()),
           bottom[0]->mutable_diff(run.stream));
    }
  }

 private:
  bool warned_ = false;
};

const RegisterLayer<Power> kRegistered{{.type = "Power",
                                        .bottoms = {1, 1},
                                        .tops = {1, 1},
                                        .summary = "(shift + scale x)^power.",
                                        .in_place = true}};

}  // namespace
}  // namespace carafe
