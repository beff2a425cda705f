// y = x > threshold ? 1 : 0; it has no gradient
#include "carafe/layers/function_layer.h"

namespace carafe {
namespace {

template <typename T>
class Threshold final : public FunctionLayer<T> {
 public:
  explicit Threshold(const LayerSpec& spec)
      : FunctionLayer<T>(spec, {Function::kThreshold,
                                static_cast<T>(spec.param().threshold_param().threshold())}) {}
  void Backward(RunContext&, Blobs<T>, const std::vector<bool>& propagate_down, Blobs<T>) override {
    this->spec().Check(!propagate_down[0], "", "Threshold has no gradient",
                       "keep it out of the path from the loss to the parameters");
  }
};

const RegisterLayer<Threshold> kRegistered{{.type = "Threshold",
                                            .bottoms = {1, 1},
                                            .tops = {1, 1},
                                            .summary = "1 where x is above a threshold, else 0.",
                                            .in_place = true}};

}  // namespace
}  // namespace carafe
