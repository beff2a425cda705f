// Adam, with t = iteration + 1 and delta outside of the correction, as Caffe has it.
//  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  w -= rate sqrt(1 - b2^t) / (1 - b1^t) m /
//  (sqrt(v) + delta)
#include "carafe/kernels/parallel_for.h"
#include "carafe/solvers/rules/adam_moments.h"

namespace carafe {
namespace {

template <typename T>
struct AdamStep {
  UpdateArgs<T> s;
  AdamMoments<T> moments;
  CARAFE_HD void operator()(int64_t i) const {
    s.Move(i, moments.Advance(s, i, s.Gradient(i), s.rate * moments.correction));
  }
};

template <typename T>
class Adam final : public UpdateRule<T> {
 public:
  explicit Adam(const RuleConfig& config) : config_(config) {}
  int num_slots() const override { return 2; }
  void Apply(Stream& stream, const UpdateArgs<T>& s) override {
    ParallelFor(stream, s.count, AdamStep<T>{s, AdamMoments<T>::At(config_, s.iteration)});
  }

 private:
  const RuleConfig config_;
};

const RegisterUpdateRule<Adam> kRegistered{
    {.type = "Adam",
     .summary = "Running means of gradient and square, corrected for their start.",
     .history_ignores_rate = true}};

}  // namespace
}  // namespace carafe
