// y = |x|; the slope at 0 is 0. Not in place, as in the original.
#include "carafe/layers/function_layer.h"

namespace carafe {
namespace {

template <typename T>
class AbsVal final : public FunctionLayer<T> {
 public:
  explicit AbsVal(const LayerSpec& spec) : FunctionLayer<T>(spec, {Function::kAbs}) {}
};

const RegisterLayer<AbsVal> kRegistered{
    {.type = "AbsVal", .bottoms = {1, 1}, .tops = {1, 1}, .summary = "|x|."}};

}  // namespace
}  // namespace carafe
