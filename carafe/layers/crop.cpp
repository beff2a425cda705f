// The part of bottom 0 that has the shape of bottom 1 from `axis` on, starting at the offsets.
#include <fmt/format.h>

#include "carafe/kernels/blocks.h"
#include "carafe/layers/layer.h"

namespace carafe {
namespace {

template <typename T>
class Crop final : public Layer<T> {
 public:
  explicit Crop(const LayerSpec& spec) : Layer<T>(spec), param_(spec.param().crop_param()) {}
  Shapes InferShapes(const Shapes& bottom) const override {
    const WindowGeometry g = GeometryOf(bottom[0], bottom[1]);
    return {Shape(std::span<const int64_t>(g.out, static_cast<size_t>(g.axes)))};
  }
  BackwardReads ReadsInBackward() const override { return {.bottom = false, .top = false}; }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    if (top[0]->count() == 0) return;
    CopyWindow(run.stream, GeometryOf(bottom[0]->shape(), bottom[1]->shape()),
               bottom[0]->data(run.stream), top[0]->mutable_data(run.stream));
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    if (propagate_down[1]) bottom[1]->ZeroDiff(run.stream);  // only its shape counts
    if (!propagate_down[0]) return;
    bottom[0]->ZeroDiff(run.stream);
    if (top[0]->count() == 0) return;
    PasteWindow(run.stream, GeometryOf(bottom[0]->shape(), bottom[1]->shape()),
                top[0]->diff(run.stream), bottom[0]->mutable_diff(run.stream));
  }

 private:
  WindowGeometry GeometryOf(const Shape& x, const Shape& size) const {
    const LayerSpec& spec = this->spec();
    const int first = x.CanonicalAxis(param_.axis()), cropped = x.rank() - first;
    spec.Check(size.rank() == x.rank(), "bottom",
               fmt::format("the bottoms have different numbers of axes: {} and {}", x.ToString(),
                           size.ToString()),
               "give two bottoms with the same number of axes");
    const int offsets = param_.offset_size();
    spec.Check(offsets <= 1 || offsets == cropped, "crop_param.offset",
               fmt::format("{} offsets are given for {} cropped axes", offsets, cropped),
               "give none, one for all, or one per cropped axis");
    WindowGeometry g;
    g.axes = x.rank();
    for (int a = 0; a < g.axes; ++a) {
      g.in[a] = x[a];
      g.out[a] = x[a];
      if (a < first) continue;
      g.out[a] = size[a];
      if (offsets > 0) g.offset[a] = param_.offset(offsets == 1 ? 0 : a - first);
      spec.Check(g.offset[a] + g.out[a] <= x[a], "crop_param.offset",
                 fmt::format("along axis {} offset {} and size {} reach beyond the bottom's {}", a,
                             g.offset[a], g.out[a], x[a]),
                 "use a smaller offset or a smaller second bottom");
    }
    return g;
  }
  const CropParameter param_;
};

const RegisterLayer<Crop> kRegistered{{.type = "Crop",
                                       .bottoms = {2, 2},
                                       .tops = {1, 1},
                                       .summary = "Cuts a blob to the size of another."}};

}  // namespace
}  // namespace carafe
