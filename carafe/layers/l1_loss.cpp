// loss = 1/N sum |a - b|, N being the number of rows (NVCaffe's DetectNet). Both have a gradient,
// the sign of the difference over N.
//   bottoms: a, b of the same size  ->  top: scalar
#include "carafe/kernels/combine.h"
#include "carafe/kernels/l1.h"
#include "carafe/kernels/math.h"
#include "carafe/layers/loss.h"

namespace carafe {
namespace {

template <typename T>
class L1Loss final : public LossLayer<T> {
 public:
  using LossLayer<T>::LossLayer;
  Shapes InferShapes(const Shapes& bottom) const override {
    this->CheckSameSize(bottom);
    return {Shape{}};
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const int64_t n = bottom[0]->count();
    difference_.Reshape({n});
    T* difference = difference_.mutable_data(stream);
    WeightedAdd<T>(stream, n, 1, bottom[0]->data(stream), -1, bottom[1]->data(stream), difference);
    this->SetLoss(stream, top, SumOfAbs(stream, n, difference) / Rows(bottom));
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    Stream& stream = run.stream;
    for (size_t i = 0; i < 2; ++i) {
      if (!propagate_down[i]) continue;
      L1Gradient<T>(stream, bottom[0]->count(), static_cast<T>((i == 0 ? 1 : -1) / Rows(bottom)),
                    top[0]->diff(stream), difference_.data(stream),
                    bottom[i]->mutable_diff(stream));
    }
  }
  bool AllowForceBackward(int) const override { return true; }

 private:
  static double Rows(Blobs<T> bottom) {
    return static_cast<double>(bottom[0]->shape().LegacyDim(0));
  }
  Blob<T> difference_;
};

const RegisterLayer<L1Loss> kRegistered{
    {.type = "L1Loss",
     .bottoms = {2, 2},
     .tops = {1, 1},
     .summary = "Sizes of differences, mean over rows (DetectNet).",
     .is_loss = true}};

}  // namespace
}  // namespace carafe
