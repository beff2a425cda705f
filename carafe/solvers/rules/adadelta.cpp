// AdaDelta; Caffe multiplies by the rate.
//  e = mu e + (1 - mu) g^2;  d = g sqrt((u + delta) / (e + delta));  u = mu u + (1 - mu) d^2;  w -=
//  rate d
#include <cmath>

#include "carafe/kernels/parallel_for.h"
#include "carafe/solvers/update_rule.h"

namespace carafe {
namespace {

template <typename T>
struct AdaDeltaStep {
  UpdateArgs<T> s;
  T mu, delta;
  CARAFE_HD void operator()(int64_t i) const {
    T *e = s.slots[0], *u = s.slots[1];
    const T g = s.Gradient(i);
    e[i] = mu * e[i] + (1 - mu) * g * g;
    const T d = g * sqrt((u[i] + delta) / (e[i] + delta));
    u[i] = mu * u[i] + (1 - mu) * d * d;
    s.Move(i, s.rate * d);
  }
};

template <typename T>
class AdaDelta final : public UpdateRule<T> {
 public:
  explicit AdaDelta(const RuleConfig& config) : config_(config) {}
  int num_slots() const override { return 2; }
  void Apply(Stream& stream, const UpdateArgs<T>& s) override {
    ParallelFor(stream, s.count, AdaDeltaStep<T>{s, T(config_.momentum), T(config_.delta)});
  }

 private:
  const RuleConfig config_;
};

const RegisterUpdateRule<AdaDelta> kRegistered{
    {.type = "AdaDelta",
     .summary = "Steps scaled by past steps over past gradients.",
     .history_ignores_rate = true}};

}  // namespace
}  // namespace carafe
