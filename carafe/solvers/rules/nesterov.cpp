// Nesterov's accelerated gradient, in Caffe's form.
//  v' = mu v + rate g;   w -= (1 + mu) v' - mu v
#include <cmath>

#include "carafe/kernels/parallel_for.h"
#include "carafe/solvers/update_rule.h"

namespace carafe {
namespace {

template <typename T>
struct NesterovStep {
  UpdateArgs<T> s;
  T mu;
  CARAFE_HD void operator()(int64_t i) const {
    T* v = s.slots[0];
    const T before = v[i];
    v[i] = mu * before + s.rate * s.Gradient(i);
    s.Move(i, (1 + mu) * v[i] - mu * before);
  }
};

template <typename T>
class Nesterov final : public UpdateRule<T> {
 public:
  explicit Nesterov(const RuleConfig& config) : config_(config) {}
  int num_slots() const override { return 1; }
  void Apply(Stream& stream, const UpdateArgs<T>& s) override {
    ParallelFor(stream, s.count, NesterovStep<T>{s, T(config_.momentum)});
  }

 private:
  const RuleConfig config_;
};

const RegisterUpdateRule<Nesterov> kRegistered{
    {.type = "Nesterov", .summary = "Momentum that looks ahead."}};

}  // namespace
}  // namespace carafe
