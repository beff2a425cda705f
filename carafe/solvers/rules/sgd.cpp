// SGD with momentum, in Caffe's form: the rate is inside the history.
//  v' = mu v + rate g;   w -= v'
#include <cmath>

#include "carafe/kernels/parallel_for.h"
#include "carafe/solvers/update_rule.h"

namespace carafe {
namespace {

template <typename T>
struct SGDStep {
  UpdateArgs<T> s;
  T mu;
  CARAFE_HD void operator()(int64_t i) const {
    T* v = s.slots[0];
    v[i] = mu * v[i] + s.rate * s.Gradient(i);
    s.Move(i, v[i]);
  }
};

template <typename T>
class SGD final : public UpdateRule<T> {
 public:
  explicit SGD(const RuleConfig& config) : config_(config) {}
  int num_slots() const override { return 1; }
  void Apply(Stream& stream, const UpdateArgs<T>& s) override {
    ParallelFor(stream, s.count, SGDStep<T>{s, T(config_.momentum)});
  }

 private:
  const RuleConfig config_;
};

const RegisterUpdateRule<SGD> kRegistered{
    {.type = "SGD", .summary = "Stochastic gradient descent with momentum."}};

}  // namespace
}  // namespace carafe
