// The windows of the bottom as columns, as Convolution forms them inside.
//   bottom (batch.., C, in..)  ->  top (batch.., C * kernel.., out..)
#include "carafe/kernels/im2col.h"

#include "carafe/layers/spatial.h"

namespace carafe {
namespace {

template <typename T>
class Im2colLayer final : public Layer<T> {
 public:
  explicit Im2colLayer(const LayerSpec& spec)
      : Layer<T>(spec), param_(spec.param().convolution_param()) {}
  Shapes InferShapes(const Shapes& bottom) const override {
    const Shape& x = bottom[0];
    const int axis = x.CanonicalAxis(param_.axis());
    const ColumnGeometry g = GeometryOf(x);
    Shape top = x.First(axis).Append(g.rows());
    for (int a = 0; a < g.axes; ++a) top = top.Append(g.out[a]);
    return {top};
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    const ColumnGeometry g = GeometryOf(bottom[0]->shape());
    const T* x = bottom[0]->data(run.stream);
    T* y = top[0]->mutable_data(run.stream);
    for (int64_t n = 0; n < Images(bottom[0]->shape()); ++n) {
      Im2col(run.stream, g, x + n * g.channels * g.in_size(), y + n * g.rows() * g.out_size());
    }
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    if (!propagate_down[0]) return;
    const ColumnGeometry g = GeometryOf(bottom[0]->shape());
    const T* dy = top[0]->diff(run.stream);
    T* dx = bottom[0]->mutable_diff(run.stream);
    for (int64_t n = 0; n < Images(bottom[0]->shape()); ++n) {
      Col2im(run.stream, g, dy + n * g.rows() * g.out_size(), dx + n * g.channels * g.in_size());
    }
  }

 private:
  int64_t Images(const Shape& x) const { return x.Count(0, x.CanonicalAxis(param_.axis())); }
  ColumnGeometry GeometryOf(const Shape& x) const {
    const int axis = x.CanonicalAxis(param_.axis());
    this->spec().Check(x.rank() > axis + 1, "convolution_param.axis",
                       "the bottom has no spatial axis behind the channels",
                       "use a smaller axis or a bottom with more axes");
    const Windows windows = ConvolutionWindows(this->spec(), param_, x.rank() - axis - 1);
    std::vector<int64_t> out;
    for (size_t a = 0; a < windows.size(); ++a) {
      const int at = axis + 1 + static_cast<int>(a);
      out.push_back(ConvolvedSize(this->spec(), windows[a], x[at], at));
    }
    return MakeGeometry(x[axis], x.dims().subspan(static_cast<size_t>(axis) + 1), out, windows);
  }
  const ConvolutionParameter param_;
};

const RegisterLayer<Im2colLayer> kRegistered{{.type = "Im2col",
                                              .bottoms = {1, 1},
                                              .tops = {1, 1},
                                              .summary = "The windows of a blob as columns."}};

}  // namespace
}  // namespace carafe
