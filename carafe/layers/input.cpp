// Blobs that the user fills: shapes given once for all tops, once per top, or not at all (then the
// user reshapes the blobs, as in pycaffe).
#include <fmt/format.h>

#include "carafe/layers/layer.h"

namespace carafe {
namespace {

template <typename T>
class Input final : public Layer<T> {
 public:
  explicit Input(const LayerSpec& spec) : Layer<T>(spec) {
    const int shapes = spec.param().input_param().shape_size();
    const int tops = spec.param().top_size();
    spec.Check(shapes == 0 || shapes == 1 || shapes == tops, "input_param.shape",
               fmt::format("{} shapes are given for {} tops", shapes, tops),
               "give one shape for all tops, or one per top");
  }
  Shapes InferShapes(const Shapes&) const override {
    const InputParameter& param = this->spec().param().input_param();
    Shapes tops;
    for (int i = 0; i < this->spec().param().top_size(); ++i) {
      if (param.shape_size() == 0) {
        tops.push_back({0});
        continue;
      }
      const BlobShape& shape = param.shape(param.shape_size() == 1 ? 0 : i);
      tops.push_back(Shape(std::vector<int64_t>(shape.dim().begin(), shape.dim().end())));
    }
    return tops;
  }
  // The user may have given the blobs another shape since.
  void Reshape(RunContext&, Blobs<T>, Blobs<T>) override {}
  void Forward(RunContext&, Blobs<T>, Blobs<T>) override {}
  void Backward(RunContext&, Blobs<T>, const std::vector<bool>&, Blobs<T>) override {}
};

const RegisterLayer<Input> kRegistered{{.type = "Input",
                                        .bottoms = {0, 0},
                                        .tops = {1, Arity::kAny},
                                        .summary = "Blobs that the user fills."}};

}  // namespace
}  // namespace carafe
