// A learned blob as a top, so that any layer can use it. It starts at 0.
#include "carafe/kernels/math.h"
#include "carafe/layers/layer.h"

namespace carafe {
namespace {

template <typename T>
class Parameter final : public Layer<T> {
 public:
  using Layer<T>::Layer;
  Shapes InferShapes(const Shapes&) const override { return {ShapeOf()}; }
  std::vector<ParamDef> DeclareParams(const Shapes&) const override { return {{ShapeOf(), {}}}; }
  void Reshape(RunContext&, Blobs<T>, Blobs<T> top) override {
    top[0]->Reshape(ShapeOf());
    top[0]->ShareData(this->blob(0));
  }
  void Forward(RunContext&, Blobs<T>, Blobs<T>) override {}
  // The gradients stay apart: the top's is overwritten in each pass, the blob's accumulates.
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>&, Blobs<T>) override {
    if (!this->param_propagate_down(0)) return;
    Axpy<T>(run.stream, top[0]->count(), 1, top[0]->diff(run.stream),
            this->blob(0).mutable_diff(run.stream));
  }

 private:
  Shape ShapeOf() const {
    const BlobShape& shape = this->spec().param().parameter_param().shape();
    return Shape(std::vector<int64_t>(shape.dim().begin(), shape.dim().end()));
  }
};

const RegisterLayer<Parameter> kRegistered{{.type = "Parameter",
                                            .bottoms = {0, 0},
                                            .tops = {1, 1},
                                            .summary = "A learned blob by itself."}};

}  // namespace
}  // namespace carafe
