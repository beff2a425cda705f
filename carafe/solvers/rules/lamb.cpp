// LAMB (You et al., 2019): AdamW's step, made as long as the parameter's own norm.
//  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
//  u = sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + delta) + decay w,  t = iteration + 1
//  w -= rate |w| / |u| u, or rate u where |w| or |u| is 0
// The norms are the host's doubles, summed in a fixed order: the same bits on every worker.
#include <cmath>

#include "carafe/kernels/math.h"
#include "carafe/kernels/parallel_for.h"
#include "carafe/solvers/rules/adam_moments.h"

namespace carafe {
namespace {

// The first of two passes leaves u in the gradient.
template <typename T>
struct LAMBDirection {
  UpdateArgs<T> s;
  AdamMoments<T> moments;
  CARAFE_HD void operator()(int64_t i) const {
    const T adam = moments.Advance(s, i, s.LossGradient(i), moments.correction);
    s.gradient[i] = adam + s.Decay(i);
  }
};

template <typename T>
struct LAMBMove {
  UpdateArgs<T> s;
  T rate;
  CARAFE_HD void operator()(int64_t i) const { s.Move(i, rate * s.gradient[i]); }
};

template <typename T>
class LAMB final : public UpdateRule<T> {
 public:
  explicit LAMB(const RuleConfig& config) : config_(config) {}
  int num_slots() const override { return 2; }
  bool by_element() const override { return false; }
  void Apply(Stream& stream, const UpdateArgs<T>& s) override {
    ParallelFor(stream, s.count, LAMBDirection<T>{s, AdamMoments<T>::At(config_, s.iteration)});
    const double value = std::sqrt(SumOfSquares<T>(stream, s.count, s.value));
    const double direction = std::sqrt(SumOfSquares<T>(stream, s.count, s.gradient));
    const double trust = value > 0 && direction > 0 ? value / direction : 1.0;
    ParallelFor(stream, s.count, LAMBMove<T>{s, T(static_cast<double>(s.rate) * trust)});
  }

 private:
  const RuleConfig config_;
};

const RegisterUpdateRule<LAMB> kRegistered{
    {.type = "LAMB",
     .summary = "AdamW's steps, each as long as the parameter's own norm.",
     .refuses_l1 = true}};

}  // namespace
}  // namespace carafe
