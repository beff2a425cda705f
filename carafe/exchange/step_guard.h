// Checks the order of the calls of a step: which gradients were announced by which worker, which
// buckets are complete, and which are being updated. Not thread-safe: the exchange locks.
#pragma once

#include <cstdint>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/exchange/plan.h"

namespace carafe {

class StepGuard {
 public:
  StepGuard(const Plan& plan, int workers)
      : plan_(plan), workers_(workers), states_(plan.buckets.size()) {
    announced_.assign(static_cast<size_t>(workers), std::vector<bool>(plan.bucket_of.size()));
    for (size_t b = 0; b < states_.size(); ++b) Reset(static_cast<int>(b));
  }

  // Returns whether the parameter's bucket is complete now.
  bool Announce(int worker, int param) {
    Ensure(worker >= 0 && worker < workers_, "there is no such worker");
    Ensure(phase_ == Phase::kOpen, "a gradient was announced between FinishStep and AwaitVerdict");
    const int bucket = plan_.bucket_of.at(static_cast<size_t>(param));
    auto announced = announced_[static_cast<size_t>(worker)].begin() + param;
    Ensure(!*announced && states_[static_cast<size_t>(bucket)].update == Update::kNone,
           "a gradient was announced before its last update");
    *announced = true;
    ++count_;
    State& state = states_[static_cast<size_t>(bucket)];
    if (--state.missing > 0) return false;
    state.update = Update::kPending;
    state.step = steps_ + 1;
    return true;
  }
  void Vote() {
    Ensure(phase_ == Phase::kOpen && !voted_, "Vote was called twice in a step");
    voted_ = true;
  }
  void Finish() {
    Ensure(phase_ == Phase::kOpen, "FinishStep was called twice");
    Ensure(voted_, "FinishStep without Vote");
    Ensure(all_announced(), "FinishStep without the gradients of all parameters");
    for (auto& worker : announced_) worker.assign(worker.size(), false);
    for (size_t b = 0; b < states_.size(); ++b) Reset(static_cast<int>(b));
    count_ = 0;
    voted_ = false;
    phase_ = Phase::kVoted;
    ++steps_;
  }
  void Judge() {
    Ensure(phase_ == Phase::kVoted, "AwaitVerdict without FinishStep");
    phase_ = Phase::kOpen;
  }
  enum class Update { kNone, kPending, kRunning };
  // Of the bucket's update: pending from when its last gradient was announced.
  Update update(int bucket) const {
    const Update update = states_[static_cast<size_t>(bucket)].update;
    Ensure(update == Update::kNone || phase_ == Phase::kOpen,
           "a value was asked for between FinishStep and AwaitVerdict");
    return update;
  }
  void CheckReadable(int worker, int param) const {
    Ensure(worker >= 0 && worker < workers_, "there is no such worker");
    Ensure(!announced_[static_cast<size_t>(worker)].at(static_cast<size_t>(param)),
           "a value was asked for between its gradient and the verdict");
  }
  void Claim(int bucket) { states_[static_cast<size_t>(bucket)].update = Update::kRunning; }
  void Updated(int bucket) { states_[static_cast<size_t>(bucket)].update = Update::kNone; }
  bool all_announced() const {
    return count_ == plan_.bucket_of.size() * static_cast<size_t>(workers_);
  }
  bool between_steps() const { return phase_ == Phase::kOpen && count_ == 0; }
  int64_t steps() const { return steps_; }  // that have ended
  int64_t step_of(int bucket) const { return states_[static_cast<size_t>(bucket)].step; }
  bool pending(int bucket) const {
    return states_[static_cast<size_t>(bucket)].update == Update::kPending;
  }

 private:
  enum class Phase { kOpen, kVoted };
  struct State {
    size_t missing = 0;  // announcements
    Update update = Update::kNone;
    int64_t step = 0;  // whose gradients it has, or had
  };
  void Reset(int bucket) {
    states_[static_cast<size_t>(bucket)].missing =
        plan_.buckets[static_cast<size_t>(bucket)].params.size() * static_cast<size_t>(workers_);
  }

  const Plan& plan_;
  const int workers_;
  std::vector<State> states_;                 // by bucket
  std::vector<std::vector<bool>> announced_;  // by worker and parameter
  size_t count_ = 0;
  Phase phase_ = Phase::kOpen;
  bool voted_ = false;  // in the step under way
  int64_t steps_ = 0;
};

}  // namespace carafe
