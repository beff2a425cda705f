// Spaces the messages of a rank so that it sends no more than a given number of bytes per second.
#pragma once

#include <algorithm>
#include <cstddef>

namespace carafe {

// In any time t at most `bytes_per_second` * t bytes and one message are sent. Times are seconds of
// any clock that does not go back.
class SendPace {
 public:
  explicit SendPace(double bytes_per_second = 0) : rate_(bytes_per_second) {}  // 0: no limit

  bool limited() const { return rate_ > 0; }
  bool Allows(double now) const { return !limited() || now >= free_at_; }
  void Sent(size_t bytes, double now) {
    if (limited()) free_at_ = std::max(free_at_, now) + static_cast<double>(bytes) / rate_;
  }
  double free_at() const { return free_at_; }  // when the next message may leave

 private:
  double rate_;
  double free_at_ = 0;
};

}  // namespace carafe
