// loss = 1/N sum of outside f(inside (a - b)), N being the number of rows and with s = sigma^2
//   f(d) = s d^2 / 2 where |d| < 1 / s, else |d| - 1 / (2 s)
//   bottoms: a, b, optionally the inside and the outside weights of each element (Fast R-CNN).
// Both a and b have a gradient.
#include <fmt/format.h>

#include "carafe/kernels/math.h"
#include "carafe/kernels/smooth_l1.h"
#include "carafe/layers/loss.h"

namespace carafe {
namespace {

template <typename T>
class SmoothL1Loss final : public LossLayer<T> {
 public:
  explicit SmoothL1Loss(const LayerSpec& spec) : LossLayer<T>(spec) {
    const double sigma = spec.param().smooth_l1_loss_param().sigma();
    spec.Check(sigma > 0, "smooth_l1_loss_param.sigma", fmt::format("sigma is {}", sigma),
               "use a number above 0, e.g. sigma: 1");
    square_ = static_cast<T>(sigma * sigma);
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    this->CheckSameSize(bottom);
    return {Shape{}};
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const int64_t n = bottom[0]->count();
    for (Blob<T>* blob : {&differences_, &losses_}) blob->Reshape({n});
    SmoothL1Losses(stream, n, square_, bottom[0]->data(stream), bottom[1]->data(stream),
                   Weights(stream, bottom, 2), Weights(stream, bottom, 3),
                   differences_.mutable_data(stream), losses_.mutable_data(stream));
    this->SetLoss(stream, top, Sum(stream, n, losses_.data(stream)) / Rows(bottom));
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    Stream& stream = run.stream;
    for (size_t i = 2; i < bottom.size(); ++i) {
      this->CheckNoLabelGradient(propagate_down, static_cast<int>(i));
    }
    for (size_t i = 0; i < 2; ++i) {
      if (!propagate_down[i]) continue;
      SmoothL1Gradient(stream, bottom[0]->count(), square_, differences_.data(stream),
                       Weights(stream, bottom, 2), Weights(stream, bottom, 3),
                       static_cast<T>((i == 0 ? 1 : -1) / Rows(bottom)), top[0]->diff(stream),
                       bottom[i]->mutable_diff(stream));
    }
  }
  bool AllowForceBackward(int bottom) const override { return bottom < 2; }

 private:
  static const T* Weights(Stream& stream, Blobs<T> bottom, size_t i) {
    return bottom.size() > i ? bottom[i]->data(stream) : nullptr;
  }
  static double Rows(Blobs<T> bottom) {
    return static_cast<double>(bottom[0]->shape().LegacyDim(0));
  }
  T square_;  // of sigma
  Blob<T> differences_, losses_;
};

const RegisterLayer<SmoothL1Loss> kRegistered{
    {.type = "SmoothL1Loss",
     .bottoms = {2, 4},
     .tops = {1, 1},
     .summary = "Squares of small and sizes of large differences, mean over rows (Fast R-CNN).",
     .is_loss = true}};

}  // namespace
}  // namespace carafe
