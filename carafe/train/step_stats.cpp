#include "carafe/train/step_stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "carafe/base/error.h"

namespace carafe {

double HiddenShare(const StepSample& sample) {
  if (sample.comm_busy <= 0) return 1;
  return std::clamp(1 - sample.comm_wait / sample.comm_busy, 0.0, 1.0);
}

StepStats::StepStats(const std::string& path, Group& group)
    : group_(group), last_(static_cast<size_t>(group.size()), 0) {
  if (group.rank() != 0) return;
  file_ = std::fopen(path.c_str(), "w");
  if (file_ == nullptr)
    throw DataError(path, -1, fmt::format("it cannot be written: {}", std::strerror(errno)),
                    "choose another file for --stats");
  std::fputs(
      "iteration,rank,host,seconds,ready,data_wait,comm_wait,comm_busy,hidden,bytes_sent,"
      "bytes_received\n",
      file_);
}

StepStats::~StepStats() {
  if (file_ != nullptr) std::fclose(file_);
}

void StepStats::Add(int64_t iteration, const StepSample& mine) {
  static_assert(std::is_trivially_copyable_v<StepSample>);
  const std::vector<std::string> all = group_.AllGather(
      std::string(reinterpret_cast<const char*>(&mine), sizeof mine), "the step's statistics");
  if (group_.rank() != 0) return;
  size_t slowest = 0;
  double latest = -1;
  for (size_t r = 0; r < all.size(); ++r) {
    StepSample sample;
    std::memcpy(&sample, all[r].data(), sizeof sample);
    fmt::print(file_, "{},{},{},{:.6f},{:.6f},{:.6f},{:.6f},{:.6f},{:.4f},{:.0f},{:.0f}\n",
               iteration, r, group_.host(static_cast<int>(r)), sample.seconds, sample.ready,
               sample.data_wait, sample.comm_wait, sample.comm_busy, HiddenShare(sample),
               sample.bytes_sent, sample.bytes_received);
    if (sample.ready > latest) {
      latest = sample.ready;
      slowest = r;
    }
    sums_.seconds += sample.seconds;
    sums_.data_wait += sample.data_wait;
    sums_.comm_wait += sample.comm_wait;
    sums_.comm_busy += sample.comm_busy;
    sums_.bytes_sent += sample.bytes_sent;
  }
  ++last_[slowest];
  ++iterations_;
}

std::string StepStats::Summary() const {
  if (iterations_ == 0) return "no iteration was measured";
  const double steps = static_cast<double>(iterations_) * static_cast<double>(last_.size());
  std::string text = fmt::format(
      "per iteration and rank: {:.3g} ms, of which {:.3g} ms waiting for data and {:.3g} ms for "
      "ranks; {:.3g} MB sent",
      1e3 * sums_.seconds / steps, 1e3 * sums_.data_wait / steps, 1e3 * sums_.comm_wait / steps,
      sums_.bytes_sent / steps / 1e6);
  if (last_.size() == 1) return text;
  const size_t slowest =
      static_cast<size_t>(std::max_element(last_.begin(), last_.end()) - last_.begin());
  return text + fmt::format(
                    ", {:.0f}% of the communication hidden; last one ready: rank {} on {} "
                    "in {:.0f}% of the iterations",
                    100 * HiddenShare(sums_), slowest, group_.host(static_cast<int>(slowest)),
                    100.0 * static_cast<double>(last_[slowest]) / static_cast<double>(iterations_));
}

}  // namespace carafe
