// AdamW (Loshchilov and Hutter, 2017): Adam whose weight decay stays out of the running means. With
// weight_decay 0 it is Adam to the last bit.
//  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
//  w -= rate (sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + delta) + decay w),  t = iteration + 1
#include "carafe/kernels/parallel_for.h"
#include "carafe/solvers/rules/adam_moments.h"

namespace carafe {
namespace {

template <typename T>
struct AdamWStep {
  UpdateArgs<T> s;
  AdamMoments<T> moments;
  CARAFE_HD void operator()(int64_t i) const {
    const T change = moments.Advance(s, i, s.LossGradient(i), s.rate * moments.correction);
    s.Move(i, change + s.rate * s.Decay(i));
  }
};

template <typename T>
class AdamW final : public UpdateRule<T> {
 public:
  explicit AdamW(const RuleConfig& config) : config_(config) {}
  int num_slots() const override { return 2; }
  void Apply(Stream& stream, const UpdateArgs<T>& s) override {
    ParallelFor(stream, s.count, AdamWStep<T>{s, AdamMoments<T>::At(config_, s.iteration)});
  }

 private:
  const RuleConfig config_;
};

const RegisterUpdateRule<AdamW> kRegistered{
    {.type = "AdamW", .summary = "Adam with weight decay that is not part of the gradient."}};

}  // namespace
}  // namespace carafe
