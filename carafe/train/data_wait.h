// How long a net waits for its data: data layers mark their waits as ("data", "wait") in the trace.
#pragma once

#include <string_view>
#include <vector>

#include "carafe/base/timer.h"
#include "carafe/core/run_context.h"

namespace carafe {

// Used by the thread that runs the net.
class DataWait final : public Trace {
 public:
  void Begin(std::string_view category, std::string_view name) override {
    const bool waits = category == "data" && name == "wait";
    spans_.push_back(waits);
    if (waits) timer_.Reset();
  }
  void End() override {
    if (spans_.back()) seconds_ += timer_.Seconds();
    spans_.pop_back();
  }
  double seconds() const { return seconds_; }

 private:
  std::vector<bool> spans_;  // those that are open, outermost first: whether it is a wait
  Timer timer_;              // of the wait that is open: a wait holds no other
  double seconds_ = 0;
};

}  // namespace carafe
