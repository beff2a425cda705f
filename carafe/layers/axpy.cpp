// top = a_c x + y, with a factor per image and channel, as SENet has it.
//   bottoms: a (N, C) or (N, C, 1, ..), x (N, C, ..), y like x  ->  top like x
#include <fmt/format.h>

#include "carafe/kernels/channels.h"
#include "carafe/kernels/math.h"
#include "carafe/layers/layer.h"

namespace carafe {
namespace {

template <typename T>
class AxpyLayer final : public Layer<T> {
 public:
  using Layer<T>::Layer;
  Shapes InferShapes(const Shapes& bottom) const override {
    const Shape &a = bottom[0], &x = bottom[1];
    this->spec().Check(
        x.rank() >= 2 && a.rank() >= 2 && a[0] == x[0] && a[1] == x[1] && a.Count(2) == 1,
        "bottom[0]",
        fmt::format("the factors are {}, but bottom 1 is {}", a.ToString(), x.ToString()),
        "give one factor per image and channel: (N, C) or (N, C, 1, 1)");
    this->spec().Check(bottom[2] == x, "bottom[2]",
                       fmt::format("bottoms 1 and 2 have different shapes: {} and {}", x.ToString(),
                                   bottom[2].ToString()),
                       "give both the same shape");
    return {x};
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const ChannelAxis axis = AxisOf(bottom[1]->shape());
    T* out = top[0]->mutable_data(stream);
    ScaleChannels(stream, axis, bottom[0]->data(stream), bottom[1]->data(stream), out);
    Add<T>(stream, axis.count(), out, bottom[2]->data(stream), out);
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    Stream& stream = run.stream;
    const ChannelAxis axis = AxisOf(bottom[1]->shape());
    const T* d = top[0]->diff(stream);
    if (propagate_down[0]) {
      T* da = bottom[0]->mutable_diff(stream);
      Fill(stream, axis.channels, T(0), da);
      AddChannelProducts(stream, axis, d, bottom[1]->data(stream), da);
    }
    if (propagate_down[1]) {
      ScaleChannels(stream, axis, bottom[0]->data(stream), d, bottom[1]->mutable_diff(stream));
    }
    if (propagate_down[2]) {
      stream.Copy(bottom[2]->mutable_diff(stream), d, static_cast<size_t>(axis.count()));
    }
  }

 private:
  // Every plane of every image counts as a channel.
  static ChannelAxis AxisOf(const Shape& x) { return {1, x.Count(0, 2), x.Count(2)}; }
};

const RegisterLayer<AxpyLayer> kRegistered{
    {.type = "Axpy",
     .bottoms = {3, 3},
     .tops = {1, 1},
     .summary = "a x + y with a factor per image and channel (SENet)."}};

}  // namespace
}  // namespace carafe
