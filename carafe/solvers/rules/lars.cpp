// LARS (You, Gitman and Ginsburg, 2017): SGD with momentum whose rate is set for each parameter by
// the sizes of its values and of its gradient, so that no layer moves too far in large batches.
//  trust = eta |w| / (|g| + decay |w|), 1 where |w| or |g| is 0;  eta = trust_coefficient
//  v' = mu v + rate trust (g + decay w);   w -= v'
// Forks have it as a setting of SGD, and leave lr_mult out of it (but for 0). With r = eta |w| /
// |g|
//  NVCaffe's larc_policy "scale": rate r instead of rate lr_mult trust;  "clip": min(rate, r)
//  intel/caffe's local_lr_auto: rate eta |w| / (|g + decay_mult decay w| + decay |w|)
// and r 1 where |w| or |g| is 0. The norms are the host's doubles, summed in a fixed order: the
// same bits on every worker.
#include <algorithm>
#include <cmath>

#include "carafe/kernels/math.h"
#include "carafe/kernels/parallel_for.h"
#include "carafe/solvers/update_rule.h"

namespace carafe {
namespace {

template <typename T>
struct LARSStep {
  UpdateArgs<T> s;
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
  void Apply(Stream& stream, const UpdateArgs<T>& s) override {
    const T rate = static_cast<T>(Rate(stream, s));
    ParallelFor(stream, s.count, LARSStep<T>{s, T(config_.momentum), rate});
  }

 private:
  double Rate(Stream& stream, const UpdateArgs<T>& s) const {
    const double value = std::sqrt(SumOfSquares<T>(stream, s.count, s.value));
    const double gradient =
        static_cast<double>(s.scale) * std::sqrt(SumOfSquares<T>(stream, s.count, s.gradient));
    const double eta = config_.trust_coefficient, rate = static_cast<double>(s.rate),
                 base = static_cast<double>(s.base_rate);
    const bool known = value > 0 && gradient > 0;
    switch (config_.local_rate) {
      case LocalRate::kPublished:
        return known ? rate * (eta * value / (gradient + static_cast<double>(s.l2) * value)) : rate;
      case LocalRate::kLarcScale:
        return known ? base * (eta * value / gradient) : base;
      case LocalRate::kLarcClip:
        return std::min(base, known ? eta * value / gradient : 1.0);
      case LocalRate::kIntel:
        return known
                   ? base *
                         (eta * value /
                          (DecayedNorm(stream, s, value, gradient) + config_.weight_decay * value))
                   : base;
    }
    return rate;
  }
  // |scale g + l2 w|
  static double DecayedNorm(Stream& stream, const UpdateArgs<T>& s, double value, double gradient) {
    const auto l2 = static_cast<double>(s.l2);
    const double product =
        static_cast<double>(s.scale) * Dot<T>(stream, s.count, s.gradient, s.value);
    return std::sqrt(
        std::max(0.0, gradient * gradient + 2 * l2 * product + l2 * l2 * value * value));
  }
  const RuleConfig config_;
};

const RegisterUpdateRule<LARS> kRegistered{
    {.type = "LARS",
     .summary = "SGD with a rate per parameter, by the sizes of its values and gradient.",
     .refuses_l1 = true}};

}  // namespace
}  // namespace carafe
