// LARS (You, Gitman and Ginsburg, 2017): SGD with momentum whose rate is set for each parameter by
// the sizes of its values and of its gradient, so that no layer moves too far in large batches.
//  trust = eta |w| / (|g| + decay |w|), 1 where |w| or |g| is 0;  eta = trust_coefficient
//  v' = mu v + rate trust (g + decay w);   w -= v'
// The norms are the host's doubles, summed in a fixed order: the same bits on every worker.
#include <cmath>

#include "carafe/kernels/math.h"
#include "carafe/kernels/parallel_for.h"
#include "carafe/solvers/update_rule.h"

namespace carafe {
namespace {

template <typename T>
struct LARSStep {
  Step<T> s;
  T mu, rate;
  CARAFE_HD void operator()(int64_t i) const {
    T* v = s.slots[0];
    v[i] = mu * v[i] + rate * s.Gradient(i);
    s.Move(i, v[i]);
  }
};

template <typename T>
class LARS final : public UpdateRule<T> {
 public:
  explicit LARS(const RuleConfig& config) : config_(config) {}
  int num_slots() const override { return 1; }
  bool by_element() const override { return false; }
  void Apply(Stream& stream, const Step<T>& s) override {
    const double value = std::sqrt(SumOfSquares<T>(stream, s.count, s.value));
    const double gradient =
        static_cast<double>(s.scale) * std::sqrt(SumOfSquares<T>(stream, s.count, s.gradient));
    const double trust =
        value > 0 && gradient > 0
            ? config_.trust_coefficient * value / (gradient + static_cast<double>(s.l2) * value)
            : 1.0;
    ParallelFor(stream, s.count,
                LARSStep<T>{s, T(config_.momentum), T(static_cast<double>(s.rate) * trust)});
  }

 private:
  const RuleConfig config_;
};

const RegisterUpdateRule<LARS> kRegistered{
    {.type = "LARS",
     .summary = "SGD with a rate per parameter, by the sizes of its values and gradient.",
     .refuses_l1 = true}};

}  // namespace
}  // namespace carafe
