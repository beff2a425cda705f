// AdamW (Loshchilov and Hutter, 2017): Adam whose weight decay stays out of the running means. With
// weight_decay 0 it is Adam to the last bit.
//  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
//  w -= rate (sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + delta) + decay w),  t = iteration + 1
#include <cmath>

#include "carafe/kernels/parallel_for.h"
#include "carafe/solvers/update_rule.h"

namespace carafe {
namespace {

template <typename T>
struct AdamWStep {
  Step<T> s;
  T b1, b2, delta, correction;
  CARAFE_HD void operator()(int64_t i) const {
    T *m = s.slots[0], *v = s.slots[1];
    const T g = s.LossGradient(i);
    m[i] = b1 * m[i] + (1 - b1) * g;
    v[i] = b2 * v[i] + (1 - b2) * g * g;
    s.Move(i, s.rate * correction * m[i] / (sqrt(v[i]) + delta) + s.rate * s.Decay(i));
  }
};

template <typename T>
class AdamW final : public UpdateRule<T> {
 public:
  explicit AdamW(const RuleConfig& config) : config_(config) {}
  int num_slots() const override { return 2; }
  void Apply(Stream& stream, const Step<T>& s) override {
    const double t = static_cast<double>(s.iteration + 1);
    const double correction =
        std::sqrt(1 - std::pow(config_.momentum2, t)) / (1 - std::pow(config_.momentum, t));
    ParallelFor(stream, s.count,
                AdamWStep<T>{s, T(config_.momentum), T(config_.momentum2), T(config_.delta),
                             T(correction)});
  }

 private:
  const RuleConfig config_;
};

const RegisterUpdateRule<AdamW> kRegistered{
    {.type = "AdamW", .summary = "Adam with weight decay that is not part of the gradient."}};

}  // namespace
}  // namespace carafe
