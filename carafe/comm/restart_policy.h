// When a job that has failed is started again (`carafe launch --restarts`).
#pragma once

#include <optional>
#include <string>

namespace carafe {

// How an attempt has ended.
struct AttemptEnd {
  int code = 0;
  bool stopped = false;       // the user has asked it to end
  bool would_repeat = false;  // an error of settings, which the next attempt would find again
  bool progressed = false;    // it has written a snapshot
};

class RestartPolicy {
 public:
  explicit RestartPolicy(int restarts) : left_(restarts) {}

  // Seconds to wait before the next attempt, or nothing if there is none: it has ended well or on
  // request (0; 75, a snapshot on SIGTERM), would fail again, or has had its number. The wait is 1
  // s after an attempt that wrote a snapshot, and doubles up to a minute with each that did not.
  std::optional<double> Next(const AttemptEnd& end);
  // Why there is no next attempt; "" if it ended well or on request.
  const std::string& reason() const { return reason_; }

 private:
  static constexpr int kMostInVain = 3;  // attempts in a row without a snapshot
  static constexpr double kLongestWait = 60;

  int left_;
  int in_vain_ = 0;
  std::string reason_;
};

}  // namespace carafe
