#include "carafe/exchange/single.h"

#include <functional>

#include "carafe/exchange/plan.h"
#include "carafe/exchange/step_guard.h"

namespace carafe {
namespace {

template <typename T>
class Single final : public Exchange<T> {
 public:
  explicit Single(const ExchangeSetup<T>& setup)
      : plan_(MakePlan<T>(setup.params, setup.bucket_bytes)),
        update_(setup.update),
        guard_(setup.params.size()) {}

  void AwaitValue(int worker, int param, Stream&) override {
    Ensure(worker == 0, "one worker, but another one asks");
    if (!guard_.Pending(param)) return;
    update_(param);
    guard_.Updated(param);
  }
  void GradientReady(int worker, int param, Stream&) override {
    Ensure(worker == 0, "one worker, but another one announces");
    guard_.Announce(param);
  }
  void FinishStep(const StepVotes& mine) override {
    guard_.Finish();
    votes_ = mine;
  }
  StepVotes AwaitVerdict() override {
    guard_.Judge();
    return votes_;
  }
  void Cancel() override { guard_.Forget(); }
  void Drain() override {
    for (const Bucket& bucket : plan_.buckets)
      for (int param : bucket.params) {
        if (!guard_.Pending(param)) continue;
        update_(param);
        guard_.Updated(param);
      }
  }
  ExchangeStats stats() const override { return {.steps = guard_.steps()}; }

 private:
  const Plan plan_;
  const std::function<void(int)> update_;
  StepGuard guard_;
  StepVotes votes_;
};

}  // namespace

template <typename T>
std::unique_ptr<Exchange<T>> MakeSingle(const ExchangeSetup<T>& setup) {
  return std::make_unique<Single<T>>(setup);
}

template std::unique_ptr<Exchange<float>> MakeSingle(const ExchangeSetup<float>&);
template std::unique_ptr<Exchange<double>> MakeSingle(const ExchangeSetup<double>&);

}  // namespace carafe
