// loss = sum of (a - b)^2 / (2 N), N being the number of rows. Both bottoms have a gradient.
#include "carafe/kernels/combine.h"
#include "carafe/kernels/loss.h"
#include "carafe/kernels/math.h"
#include "carafe/layers/loss.h"

namespace carafe {
namespace {

template <typename T>
class EuclideanLoss final : public LossLayer<T> {
 public:
  using LossLayer<T>::LossLayer;
  Shapes InferShapes(const Shapes& bottom) const override {
    this->CheckSameSize(bottom);
    return {Shape{}};
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const int64_t n = bottom[0]->count();
    difference_.Reshape(bottom[0]->shape());
    T* difference = difference_.mutable_data(stream);
    WeightedAdd<T>(stream, n, 1, bottom[0]->data(stream), -1, bottom[1]->data(stream), difference);
    this->SetLoss(stream, top, SumOfSquares(stream, n, difference) / (2 * Rows(bottom)));
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    Stream& stream = run.stream;
    for (size_t i = 0; i < 2; ++i) {
      if (!propagate_down[i]) continue;
      const double factor = (i == 0 ? 1 : -1) / Rows(bottom);
      ScaleByWeight<T>(stream, bottom[i]->count(), static_cast<T>(factor), top[0]->diff(stream),
                       difference_.data(stream), bottom[i]->mutable_diff(stream));
    }
  }
  bool AllowForceBackward(int) const override { return true; }

 private:
  static double Rows(Blobs<T> bottom) {
    return static_cast<double>(bottom[0]->shape().LegacyDim(0));
  }
  Blob<T> difference_;
};

const RegisterLayer<EuclideanLoss> kRegistered{
    {.type = "EuclideanLoss",
     .bottoms = {2, 2},
     .tops = {1, 1},
     .summary = "Half the mean squared distance of rows.",
     .is_loss = true}};

}  // namespace
}  // namespace carafe
