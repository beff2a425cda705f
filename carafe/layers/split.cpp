// One blob for several users: the tops share the bottom's data, and their gradients are added.
#include "carafe/kernels/math.h"
#include "carafe/layers/layer.h"
#include "carafe/layers/memory_format.h"

namespace carafe {
namespace {

template <typename T>
class Split final : public Layer<T> {
 public:
  using Layer<T>::Layer;
  Shapes InferShapes(const Shapes& bottom) const override {
    return Shapes(static_cast<size_t>(this->spec().param().top_size()), bottom[0]);
  }
  void Reshape(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Layer<T>::Reshape(run, bottom, top);
    for (Blob<T>* blob : top) blob->ShareData(*bottom[0]);
  }
  BackwardReads ReadsInBackward() const override { return {.bottom = false, .top = false}; }
  TopSharing SharesBottom() const override { return {.data = true, .diff = false}; }
  void Forward(RunContext&, Blobs<T>, Blobs<T>) override {}
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    if (!propagate_down[0]) return;
    Stream& stream = run.stream;
    const Format format = CommonFormat(stream, *bottom[0], *top[0]);
    const int64_t n = StoredCount(*bottom[0], format);
    T* dx = bottom[0]->overwrite_diff(stream, format);
    if (top.size() == 1) {
      stream.Copy(dx, top[0]->diff(stream, format), static_cast<size_t>(n));
      return;
    }
    Add<T>(stream, n, top[0]->diff(stream, format), top[1]->diff(stream, format), dx);
    for (size_t i = 2; i < top.size(); ++i) {
      Axpy<T>(stream, n, 1, top[i]->diff(stream, format), dx);
    }
  }
};

const RegisterLayer<Split> kRegistered{
    {.type = "Split",
     .bottoms = {1, 1},
     .tops = {1, Arity::kAny},
     .summary = "Gives one blob to several layers; put in by the net where needed."}};

}  // namespace
}  // namespace carafe
