// Adam, with t = iteration + 1 and delta outside of the correction, as Caffe has it.
//  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  w -= rate sqrt(1 - b2^t) / (1 - b1^t) m /
//  (sqrt(v) + delta)
#include <cmath>

#include "carafe/kernels/parallel_for.h"
#include "carafe/solvers/update_rule.h"

namespace carafe {
namespace {

template <typename T>
struct AdamStep {
  Step<T> s;
  T b1, b2, delta, correction;
  CARAFE_HD void operator()(int64_t i) const {
    T *m = s.slots[0], *v = s.slots[1];
    const T g = s.Gradient(i);
    m[i] = b1 * m[i] + (1 - b1) * g;
    v[i] = b2 * v[i] + (1 - b2) * g * g;
    s.Move(i, s.rate * correction * m[i] / (sqrt(v[i]) + delta));
  }
};

template <typename T>
class Adam final : public UpdateRule<T> {
 public:
  explicit Adam(const RuleConfig& config) : config_(config) {}
  int num_slots() const override { return 2; }
  void Apply(Stream& stream, const Step<T>& s) override {
    ParallelFor(stream, s.count,
                AdamStep<T>{s, T(config_.momentum), T(config_.momentum2), T(config_.delta),
                            T(Correction(s.iteration))});
  }

 private:
  double Correction(int64_t iteration) const {
    const double t = static_cast<double>(iteration + 1);
    return std::sqrt(1 - std::pow(config_.momentum2, t)) / (1 - std::pow(config_.momentum, t));
  }
  const RuleConfig config_;
};

const RegisterUpdateRule<Adam> kRegistered{
    {.type = "Adam",
     .summary = "Running means of gradient and square, corrected for their start.",
     .history_ignores_rate = true}};

}  // namespace
}  // namespace carafe
