// How long the net waits for data.
#pragma once

#include "carafe/core/run_context.h"

namespace carafe {

// Tells the trace, if somebody looks, of the time from construction to destruction.
class WaitScope {
 public:
  explicit WaitScope(Trace* trace) : trace_(trace) {
    if (trace_ != nullptr) trace_->Begin("data", "wait");
  }
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;
  ~WaitScope() {
    if (trace_ != nullptr) trace_->End();
  }

 private:
  Trace* const trace_;
};

}  // namespace carafe
