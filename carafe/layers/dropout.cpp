// TRAIN: y = x * mask / (1 - ratio), each mask bit 1 with probability 1 - ratio. TEST: y = x.
// Of forks: scale_train: false (Fast R-CNN) is y = x * mask in TRAIN and y = (1 - ratio) x in TEST;
// sample_weights_test (Bayesian SegNet) does in TEST what it does in TRAIN.
// Row r (axis 0; of a recurrent net axes 0 and 1) of worker w draws as slot r * workers + w of the
// pass, so the mask does not depend on how many workers share the batch.
#include "carafe/kernels/activation.h"
#include "carafe/kernels/blocked_channels.h"
#include "carafe/kernels/math.h"
#include "carafe/layers/memory_format.h"
#include "carafe/layers/neuron.h"
#include "carafe/proto/fork_messages.h"

namespace carafe {
namespace {

template <typename T>
class Dropout final : public NeuronLayer<T> {
 public:
  explicit Dropout(const LayerSpec& spec)
      : NeuronLayer<T>(spec),
        fork_(ForkPart<ForkDropoutParameter>(spec.param().dropout_param())),
        ratio_(spec.param().dropout_param().dropout_ratio()),
        drops_(spec.phase() == TRAIN || fork_.sample_weights_test()) {
    spec.Check(ratio_ >= 0 && ratio_ < 1, "dropout_param.dropout_ratio",
               "dropout_ratio must be at least 0 and below 1",
               "give the share of elements to drop, e.g. dropout_ratio: 0.5");
  }
  BackwardReads ReadsInBackward() const override { return {.bottom = false, .top = false}; }
  void SetRowAxes(int axes) override { row_axes_ = axes; }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const Shape& shape = bottom[0]->shape();
    const Format format = CommonFormat(stream, *bottom[0], *top[0]);
    const T* x = bottom[0]->data(stream, format);
    T* y = top[0]->overwrite_data(stream, format);
    if (!drops_) return Pass(stream, StoredCount(*bottom[0], format), x, y);
    int64_t rows = 1;
    for (int axis = 0; axis < row_axes_; ++axis) rows *= shape.LegacyDim(axis);
    mask_.Reshape(shape);
    uint8_t* mask = mask_.mutable_data(stream);
    DrawMask(stream, DrawKey(run, *this), run.replica.Slot(0), run.replica.count, rows,
             rows > 0 ? shape.Count() / rows : 0, ratio_, mask);
    ApplyMask(stream, *bottom[0], format, x, y);
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    if (!propagate_down[0]) return;
    Stream& stream = run.stream;
    const Format format = CommonFormat(stream, *bottom[0], *top[0]);
    const T* dy = top[0]->diff(stream, format);
    T* dx = bottom[0]->overwrite_diff(stream, format);
    if (drops_) {
      ApplyMask(stream, *bottom[0], format, dy, dx);
    } else {
      Pass(stream, StoredCount(*bottom[0], format), dy, dx);
    }
  }

 private:
  // The mask is drawn by plain index, whatever the format, so that the draws are the same.
  void ApplyMask(Stream& stream, const Blob<T>& blob, Format format, const T* x, T* y) {
    if constexpr (std::is_same_v<T, float>) {
      if (format == Format::kBlocked8) {
        return BlockedMultiplyMask(stream, blob.blocked_geometry(), Scale(), mask_.data(stream), x,
                                   y);
      }
    }
    MultiplyMask<T>(stream, blob.count(), Scale(), mask_.data(stream), x, y);
  }
  // TEST, of values and of gradients.
  void Pass(Stream& stream, int64_t count, const T* x, T* y) const {
    if (fork_.scale_train()) {
      stream.Copy(y, x, static_cast<size_t>(count));
    } else {
      carafe::Scale(stream, count, T(1) - static_cast<T>(ratio_), x, y);
    }
  }
  T Scale() const { return fork_.scale_train() ? T(1) / (T(1) - static_cast<T>(ratio_)) : T(1); }
  const ForkDropoutParameter fork_;
  const float ratio_;
  const bool drops_;
  int row_axes_ = 1;
  Blob<uint8_t> mask_;
};

const RegisterLayer<Dropout> kRegistered{
    {.type = "Dropout",
     .bottoms = {1, 1},
     .tops = {1, 1},
     .summary = "Drops elements at random in TRAIN and scales up the rest.",
     .in_place = true}};

}  // namespace
}  // namespace carafe
