// The pace of whoever polls for messages: the communication thread, or a thread that waits.
#pragma once

#include <chrono>

namespace carafe {

constexpr double kShortestSleep = 20e-6;         // seconds; grows by half a time
constexpr double kLongestSleepIfAwaited = 1e-4;  // the compute thread idles, so a core is free

// Seconds, from any moment on.
inline double Now() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

}  // namespace carafe
