// Swallows its bottoms, so that nobody prints them as outputs. Their gradient is 0.
#include "carafe/layers/layer.h"

namespace carafe {
namespace {

template <typename T>
class Silence final : public Layer<T> {
 public:
  using Layer<T>::Layer;
  Shapes InferShapes(const Shapes&) const override { return {}; }
  void Forward(RunContext&, Blobs<T>, Blobs<T>) override {}
  void Backward(RunContext& run, Blobs<T>, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    for (size_t i = 0; i < bottom.size(); ++i) {
      if (propagate_down[i]) bottom[i]->ZeroDiff(run.stream);
    }
  }
};

const RegisterLayer<Silence> kRegistered{{.type = "Silence",
                                          .bottoms = {1, Arity::kAny},
                                          .tops = {0, 0},
                                          .summary = "Swallows blobs that nobody wants to see."}};

}  // namespace
}  // namespace carafe
