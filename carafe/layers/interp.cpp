// Bilinear interpolation that keeps the corners, as DeepLab and PSPNet have it. First
// -pad_beg and -pad_end rows and columns are cut off, leaving H x W, then
//   height and width:  that size
//   shrink_factor:     (H - 1) / shrink + 1
//   zoom_factor:       H + (H - 1) (zoom - 1); after shrink_factor where both are given
//   bottom (N, C, H, W)  ->  top (N, C, H', W')
#include <fmt/format.h>

#include "carafe/kernels/resize.h"
#include "carafe/layers/layer.h"

namespace carafe {
namespace {

template <typename T>
class Interp final : public Layer<T> {
 public:
  explicit Interp(const LayerSpec& spec) : Layer<T>(spec), param_(spec.param().interp_param()) {
    const bool factors = param_.has_shrink_factor() || param_.has_zoom_factor();
    const bool sizes = param_.has_height() || param_.has_width();
    spec.Check(factors || sizes, "interp_param", "neither height and width nor a factor is given",
               "give height and width, zoom_factor, or shrink_factor");
    spec.Check(!factors || !sizes, "interp_param", "sizes and factors are both given",
               "keep height and width, or the factors");
    spec.Check(!sizes || (param_.height() > 0 && param_.width() > 0), "interp_param",
               fmt::format("height is {} and width {}", param_.height(), param_.width()),
               "give both, 1 or more");
    spec.Check(param_.shrink_factor() > 0, "interp_param.shrink_factor",
               fmt::format("shrink_factor is {}", param_.shrink_factor()), "use 1 or more");
    spec.Check(param_.zoom_factor() > 0, "interp_param.zoom_factor",
               fmt::format("zoom_factor is {}", param_.zoom_factor()), "use 1 or more");
    spec.Check(param_.pad_beg() <= 0, "interp_param.pad_beg",
               fmt::format("pad_beg is {}: only cropping is supported", param_.pad_beg()),
               "use 0 or a negative number");
    spec.Check(param_.pad_end() <= 0, "interp_param.pad_end",
               fmt::format("pad_end is {}: only cropping is supported", param_.pad_end()),
               "use 0 or a negative number");
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    const BilinearGeometry g = GeometryOf(bottom[0]);
    return {bottom[0].With(2, g.out_height).With(3, g.out_width)};
  }
  BackwardReads ReadsInBackward() const override { return {.bottom = false, .top = false}; }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    BilinearForward(run.stream, GeometryOf(bottom[0]->shape()), bottom[0]->data(run.stream),
                    top[0]->mutable_data(run.stream));
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    if (!propagate_down[0]) return;
    BilinearBackward(run.stream, GeometryOf(bottom[0]->shape()), top[0]->diff(run.stream),
                     bottom[0]->mutable_diff(run.stream));
  }

 private:
  BilinearGeometry GeometryOf(const Shape& x) const {
    const LayerSpec& spec = this->spec();
    spec.Check(
        x.rank() == 4, "bottom",
        fmt::format("Interp needs a bottom of 4 axes (N, C, H, W), this one is {}", x.ToString()),
        "reshape the bottom");
    const int64_t cut = -(int64_t{param_.pad_beg()} + param_.pad_end());
    const int64_t height = x[2] - cut, width = x[3] - cut;
    spec.Check(height > 0 && width > 0, "interp_param",
               fmt::format("nothing remains of {} x {} after cutting off {}", x[2], x[3], cut),
               "use pads closer to 0, or a larger bottom");
    return {.planes = x[0] * x[1],
            .in_height = x[2],
            .in_width = x[3],
            .first = -int64_t{param_.pad_beg()},
            .height = height,
            .width = width,
            .out_height = OutSize(height, param_.height()),
            .out_width = OutSize(width, param_.width())};
  }
  int64_t OutSize(int64_t in, int64_t wanted) const {
    if (wanted > 0) return wanted;
    const int64_t shrunk = (in - 1) / param_.shrink_factor() + 1;
    return shrunk + (shrunk - 1) * (param_.zoom_factor() - 1);
  }
  const InterpParameter param_;
};

const RegisterLayer<Interp> kRegistered{
    {.type = "Interp",
     .bottoms = {1, 1},
     .tops = {1, 1},
     .summary = "Bilinear interpolation to another size, corner on corner (DeepLab, PSPNet)."}};

}  // namespace
}  // namespace carafe
