// RMSProp.
//  h = rho h + (1 - rho) g^2;   w -= rate g / (sqrt(h) + delta)
#include <cmath>

#include "carafe/kernels/parallel_for.h"
#include "carafe/solvers/update_rule.h"

namespace carafe {
namespace {

template <typename T>
struct RMSPropStep {
  UpdateArgs<T> s;
  T rho, delta;
  CARAFE_HD void operator()(int64_t i) const {
    T* h = s.slots[0];
    const T g = s.Gradient(i);
    h[i] = rho * h[i] + (1 - rho) * g * g;
    s.Move(i, s.rate * g / (sqrt(h[i]) + delta));
  }
};

template <typename T>
class RMSProp final : public UpdateRule<T> {
 public:
  explicit RMSProp(const RuleConfig& config) : config_(config) {}
  int num_slots() const override { return 1; }
  void Apply(Stream& stream, const UpdateArgs<T>& s) override {
    ParallelFor(stream, s.count, RMSPropStep<T>{s, T(config_.rms_decay), T(config_.delta)});
  }

 private:
  const RuleConfig config_;
};

const RegisterUpdateRule<RMSProp> kRegistered{{.type = "RMSProp",
                                               .summary = "Rates follow a running mean of squares.",
                                               .refuses = "momentum",
                                               .history_ignores_rate = true}};

}  // namespace
}  // namespace carafe
