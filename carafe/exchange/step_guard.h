// Keeps the calls of a step in order, for every strategy alike: which parameters were announced,
// which updates are pending. Used by the compute thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "carafe/base/error.h"

namespace carafe {

class StepGuard {
 public:
  explicit StepGuard(size_t params) : pending_(params, false) {}

  void Announce(int param) {
    Ensure(phase_ == Phase::kOpen, "a gradient was announced between FinishStep and AwaitVerdict");
    Ensure(!pending_.at(param), "a gradient was announced before its last update");
    pending_[param] = true;
    ++announced_;
  }
  void Finish() {
    Ensure(phase_ == Phase::kOpen, "FinishStep was called twice");
    Ensure(announced_ == pending_.size(), "FinishStep without the gradients of all parameters");
    announced_ = 0;
    phase_ = Phase::kVoted;
    ++steps_;
  }
  void Judge() {
    Ensure(phase_ == Phase::kVoted, "AwaitVerdict without FinishStep");
    phase_ = Phase::kOpen;
  }
  // Whether p's update must run now; before the end of a step there is none to run.
  bool Pending(int param) const {
    if (!pending_.at(param)) return false;
    Ensure(phase_ == Phase::kOpen && announced_ == 0,
           "a value was asked for between its gradient and the verdict");
    return true;
  }
  void Updated(int param) { pending_[param] = false; }
  void Forget() {
    Ensure(phase_ == Phase::kOpen && announced_ == 0, "Cancel in the middle of a step");
    std::fill(pending_.begin(), pending_.end(), false);
  }
  int64_t steps() const { return steps_; }

 private:
  enum class Phase { kOpen, kVoted };
  std::vector<bool> pending_;
  size_t announced_ = 0;
  Phase phase_ = Phase::kOpen;
  int64_t steps_ = 0;
};

}  // namespace carafe
