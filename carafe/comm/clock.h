// The clock of the communication threads.
#pragma once

#include <chrono>

namespace carafe {

// Seconds of the steady clock.
inline double Now() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

}  // namespace carafe
