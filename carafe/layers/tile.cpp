// Repeats the bottom `tiles` times along `axis`.
#include "carafe/kernels/blocks.h"
#include "carafe/layers/layer.h"

namespace carafe {
namespace {

template <typename T>
class Tile final : public Layer<T> {
 public:
  explicit Tile(const LayerSpec& spec) : Layer<T>(spec), param_(spec.param().tile_param()) {
    spec.Check(param_.tiles() > 0, "tile_param.tiles", "tiles is missing or not positive",
               "give the number of copies, e.g. tiles: 2");
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    const int axis = bottom[0].CanonicalAxis(param_.axis());
    return {bottom[0].With(axis, bottom[0][axis] * param_.tiles())};
  }
  BackwardReads ReadsInBackward() const override { return {.bottom = false, .top = false}; }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    const Dims d = DimsOf(bottom[0]->shape());
    const T* x = bottom[0]->data(run.stream);
    T* y = top[0]->mutable_data(run.stream);
    for (int64_t t = 0; t < param_.tiles(); ++t) {
      CopyBlock(run.stream, d.rows, d.width, x, d.width, y + t * d.width, d.width * param_.tiles());
    }
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    if (!propagate_down[0]) return;
    const Dims d = DimsOf(bottom[0]->shape());
    const T* dy = top[0]->diff(run.stream);
    T* dx = bottom[0]->mutable_diff(run.stream);
    CopyBlock(run.stream, d.rows, d.width, dy, d.width * param_.tiles(), dx, d.width);
    for (int64_t t = 1; t < param_.tiles(); ++t) {
      AddBlock(run.stream, d.rows, d.width, dy + t * d.width, d.width * param_.tiles(), dx,
               d.width);
    }
  }

 private:
  struct Dims {
    int64_t rows, width;
  };
  Dims DimsOf(const Shape& x) const {
    const int axis = x.CanonicalAxis(param_.axis());
    return {x.Count(0, axis), x.Count(axis)};
  }
  const TileParameter param_;
};

const RegisterLayer<Tile> kRegistered{{.type = "Tile",
                                       .bottoms = {1, 1},
                                       .tops = {1, 1},
                                       .summary = "Repeats a blob along an axis."}};

}  // namespace
}  // namespace carafe
