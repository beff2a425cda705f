// Wall time since construction or the last Reset.
#pragma once

#include <chrono>

namespace carafe {

class Timer {
 public:
  void Reset() { start_ = Clock::now(); }
  double Seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

}  // namespace carafe
