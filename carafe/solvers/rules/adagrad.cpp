// AdaGrad.
//  h += g^2;   w -= rate g / (sqrt(h) + delta)
#include <cmath>

#include "carafe/kernels/parallel_for.h"
#include "carafe/solvers/update_rule.h"

namespace carafe {
namespace {

template <typename T>
struct AdaGradStep {
  UpdateArgs<T> s;
  T delta;
  CARAFE_HD void operator()(int64_t i) const {
    T* h = s.slots[0];
    const T g = s.Gradient(i);
    h[i] += g * g;
    s.Move(i, s.rate * g / (sqrt(h[i]) + delta));
  }
};

template <typename T>
class AdaGrad final : public UpdateRule<T> {
 public:
  explicit AdaGrad(const RuleConfig& config) : config_(config) {}
  int num_slots() const override { return 1; }
  void Apply(Stream& stream, const UpdateArgs<T>& s) override {
    ParallelFor(stream, s.count, AdaGradStep<T>{s, T(config_.delta)});
  }

 private:
  const RuleConfig config_;
};

const RegisterUpdateRule<AdaGrad> kRegistered{
    {.type = "AdaGrad",
     .summary = "Rates fall with the squares seen so far.",
     .refuses = "momentum",
     .history_ignores_rate = true}};

}  // namespace
}  // namespace carafe
