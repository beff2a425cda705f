// Spatial pyramid pooling: level l pools each plane into 2^l x 2^l bins, and the levels are put one
// after the other.
//   bottom (N, C, H, W)  ->  top (N, C (1 + 4 + 16 + ..)); with one level (N, C, 1, 1)
#include <fmt/format.h>

#include "carafe/kernels/blocks.h"
#include "carafe/kernels/math.h"
#include "carafe/kernels/pooling.h"
#include "carafe/layers/layer.h"

namespace carafe {
namespace {

template <typename T>
class Spp final : public Layer<T> {
 public:
  explicit Spp(const LayerSpec& spec) : Layer<T>(spec), param_(spec.param().spp_param()) {
    spec.Check(param_.pyramid_height() > 0 && param_.pyramid_height() < 31,
               "spp_param.pyramid_height", "pyramid_height is missing, 0 or far too large",
               "give the number of levels, e.g. pyramid_height: 3");
    spec.Check(param_.pool() != SPPParameter::STOCHASTIC, "spp_param.pool",
               "SPP does not pool at random", "use MAX or AVE");
    levels_.resize(param_.pyramid_height());
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    const Shape& x = bottom[0];
    this->spec().Check(
        x.rank() == 4 && x[2] > 0 && x[3] > 0, "bottom",
        fmt::format("SPP needs a bottom of 4 axes (N, C, H, W), this one is {}", x.ToString()),
        "reshape the bottom");
    if (levels_.size() == 1) return {{x[0], x[1], 1, 1}};
    int64_t width = 0;
    for (size_t l = 0; l < levels_.size(); ++l) width += x[1] * GeometryOf(x, l).out_size();
    return {{x[0], width}};
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const Shape& shape = bottom[0]->shape();
    const T* x = bottom[0]->data(stream);
    T* y = top[0]->mutable_data(stream);
    const int64_t step = shape[0] > 0 ? top[0]->count() / shape[0] : 0;
    for (size_t l = 0; l < levels_.size(); ++l) {
      const PoolGeometry g = GeometryOf(shape, l);
      Level& level = levels_[l];
      const int64_t width = shape[1] * g.out_size();
      level.pooled.Reshape({shape[0], width});
      T* pooled = level.pooled.mutable_data(stream);
      if (param_.pool() == SPPParameter::MAX) {
        level.mask.Reshape({shape[0], width});
        MaxPoolForward(stream, g, x, pooled, level.mask.mutable_data(stream));
      } else {
        AveragePoolForward(stream, g, x, pooled);
      }
      CopyBlock<T>(stream, shape[0], width, pooled, width, y, step);
      y += width;
    }
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    if (!propagate_down[0]) return;
    Stream& stream = run.stream;
    const Shape& shape = bottom[0]->shape();
    const T* dy = top[0]->diff(stream);
    T* dx = bottom[0]->mutable_diff(stream);
    part_.Reshape(shape);
    const int64_t step = shape[0] > 0 ? top[0]->count() / shape[0] : 0;
    for (size_t l = 0; l < levels_.size(); ++l) {
      const PoolGeometry g = GeometryOf(shape, l);
      Level& level = levels_[l];
      const int64_t width = shape[1] * g.out_size();
      T* gradient = level.pooled.mutable_diff(stream);
      CopyBlock<T>(stream, shape[0], width, dy, step, gradient, width);
      T* to = l == 0 ? dx : part_.mutable_data(stream);
      if (param_.pool() == SPPParameter::MAX) {
        MaskedPoolBackward<T>(stream, g, level.mask.data(stream), gradient, to);
      } else {
        AveragePoolBackward<T>(stream, g, gradient, to);
      }
      if (l > 0) Axpy<T>(stream, shape.Count(), 1, to, dx);
      dy += width;
    }
  }

 private:
  struct Level {
    Blob<T> pooled;
    Blob<int32_t> mask;
  };
  // Bins of ceil(size / bins), the rest of them as padding on both sides.
  PoolGeometry GeometryOf(const Shape& x, size_t level) const {
    const int64_t bins = int64_t{1} << level;
    int64_t kernel[2], pad[2];
    for (int a = 0; a < 2; ++a) {
      const int64_t size = x[2 + a];
      kernel[a] = (size + bins - 1) / bins;
      pad[a] = (kernel[a] * bins - size + 1) / 2;
      this->spec().Check(
          pad[a] < kernel[a], "spp_param.pyramid_height",
          fmt::format("axis {} of the bottom ({}) is too small for {} bins", 2 + a, size, bins),
          "use fewer levels or larger images");
    }
    return {.planes = x[0] * x[1],
            .height = x[2],
            .width = x[3],
            .pooled_height = bins,
            .pooled_width = bins,
            .kernel_h = kernel[0],
            .kernel_w = kernel[1],
            .stride_h = kernel[0],
            .stride_w = kernel[1],
            .pad_h = pad[0],
            .pad_w = pad[1]};
  }
  const SPPParameter param_;
  std::vector<Level> levels_;
  Blob<T> part_;  // one level's gradient
};

const RegisterLayer<Spp> kRegistered{{.type = "SPP",
                                      .bottoms = {1, 1},
                                      .tops = {1, 1},
                                      .summary = "Pools each plane into 1, 4, 16, .. bins."}};

}  // namespace
}  // namespace carafe
