#include "carafe/comm/restart_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace carafe {

namespace {
constexpr int kSnapshotOnSigterm = 75;
}

std::optional<double> RestartPolicy::Next(const AttemptEnd& end) {
  reason_.clear();
  if (end.code == 0 || end.code == kSnapshotOnSigterm || end.stopped) return {};
  in_vain_ = end.progressed ? 0 : in_vain_ + 1;
  if (end.would_repeat) {
    reason_ = "the error above would come again";
  } else if (left_ == 0) {
    reason_ = "all restarts that --restarts permits are used up";
  } else if (in_vain_ == kMostInVain) {
    reason_ = fmt::format("{} attempts in a row wrote no snapshot", kMostInVain);
  }
  if (!reason_.empty()) return {};
  --left_;
  return std::min(kLongestWait, std::exp2(in_vain_));
}

}  // namespace carafe
