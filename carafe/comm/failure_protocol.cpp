#include "carafe/comm/failure_protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/base/log.h"
#include "carafe/comm/clock.h"
#include "carafe/comm/pacing.h"

namespace carafe {
namespace {

constexpr double kPollInterval = 2e-3;  // seconds between polls of control messages

}  // namespace

std::string RankOn(int rank, const std::string& host) {
  return host.empty() ? fmt::format("rank {}", rank) : fmt::format("rank {} on {}", rank, host);
}

FailureProtocol::FailureProtocol(Transport& transport, const CommTimeouts& timeouts,
                                 Control::Waits waits, std::function<void()> on_failure)
    : timeouts_(timeouts),
      on_failure_(std::move(on_failure)),
      rank_(transport.rank()),
      hosts_(static_cast<size_t>(transport.size())),
      control_(transport, timeouts, std::move(waits)) {}

std::vector<std::string> FailureProtocol::Start() {
  PollUntil(timeouts_.wait, [this] { return control_.complete() || control_.failure(); });
  std::vector<int> missing;
  for (int r = 0; r < Count(hosts_); ++r) {
    At(hosts_, r) = control_.host(r);
    if (At(hosts_, r).empty()) missing.push_back(r);
  }
  if (!control_.complete() && !control_.failure())
    throw CommError(fmt::format("{} waited {:.0f} s for {} to start", Names({rank_}),
                                timeouts_.wait, Names(missing)),
                    "look at the output of those ranks, and at the network "
                    "between the hosts");
  return hosts_;
}

bool FailureProtocol::Poll(double now) {
  if (transport_lost_ || now - last_poll_ < kPollInterval) return false;
  last_poll_ = now;
  control_.SetUrgent(asked_to_end());
  const bool moved = control_.Poll(now);
  others_busy_.store(control_.AnyBusy(), std::memory_order_relaxed);
  left_long_ago_.store(control_.LeftLongAgo(), std::memory_order_relaxed);
  return moved;
}

void FailureProtocol::Fail(const std::string& text) {
  if (transport_lost_) return;
  if (!control_.failure()) control_.Poll(Now());  // a peer that failed may have sent the reason
  control_.Fail({rank_, false, text});
}

void FailureProtocol::Publish() {
  if (!control_.failure() || failed_.load(std::memory_order_relaxed)) return;
  {
    MutexLock lock(mutex_);
    failure_ = control_.failure();
    failed_.store(true, std::memory_order_release);
  }
  on_failure_();
}

void FailureProtocol::OnTransportLost() {
  PollFarewell([this] { return control_.AllSent(); });
  transport_lost_ = true;
}

// ---- The end of this rank ----

bool FailureProtocol::FailAndChooseReporter(const std::string& text) {
  if (transport_lost_) return control_.failure()->rank == rank_ || IsReporter();
  control_.Poll(Now());
  if (control_.failure()) {
    control_.Acknowledge();
  } else {
    control_.Fail({rank_, false, text});
  }
  Publish();
  if (control_.failure()->rank == rank_)
    PollUntil(timeouts_.farewell, [this] { return control_.AllAcknowledged(); });
  const bool reports = IsReporter();
  if (reports) {
    control_.AnnounceReport(false);
  } else {
    PollUntil(2 * timeouts_.farewell, [this] { return control_.reported(); });
  }
  return reports;
}

// Rank 0 reports. The failed rank does if rank 0 has not acknowledged the failure, and rank 1 does
// if rank 0 is lost.
bool FailureProtocol::IsReporter() const {
  const GroupFailure& failure = *control_.failure();
  if (control_.reporting()) return false;
  if (failure.dead) return rank_ == (failure.rank == 0 ? 1 : 0);
  return rank_ == 0 || (failure.rank == rank_ && !control_.Acknowledged(0));
}

void FailureProtocol::Reported() {
  if (transport_lost_) return;
  control_.AnnounceReport(true);
  PollFarewell([this] { return control_.AllSent(); });
}

void FailureProtocol::Acknowledge() {
  if (!transport_lost_) control_.Acknowledge();
}

bool FailureProtocol::AllAcknowledged() const {
  const std::optional<GroupFailure>& failure = control_.failure();
  return control_.AllAcknowledged() && !(failure && failure->dead);
}

void FailureProtocol::AnnounceWork(const std::string& work) {
  if (!transport_lost_) control_.Announce(work);
}

bool FailureProtocol::Leave() {
  if (transport_lost_) return false;
  if (control_.failure()) {
    PollFarewell([this] { return control_.AllSent(); });
    return false;
  }
  control_.Leave();
  const auto all_left = [this] { return control_.AllLeft() && control_.AllSent(); };
  PollUntil(timeouts_.wait, [&] { return control_.failure() || all_left(); });
  if (!control_.failure() && all_left()) return true;
  LogWarning("{} exits before the other ranks have finished", Names({rank_}));
  return false;
}

void FailureProtocol::PollUntil(double seconds, const std::function<bool()>& done) {
  const double end = Now() + seconds;
  Backoff backoff;
  while (!done() && Now() < end) {
    control_.SetUrgent(asked_to_end());
    if (control_.Poll(Now())) {
      backoff.Reset();
    } else {
      backoff.Sleep();
    }
  }
}

// After a failure the last messages share one deadline: a peer that hangs must not delay each step.
void FailureProtocol::PollFarewell(const std::function<bool()>& done) {
  if (farewell_ends_ < 0) farewell_ends_ = Now() + timeouts_.farewell;
  PollUntil(farewell_ends_ - Now(), done);
}

// ---- Any thread ----

std::string FailureProtocol::Names(const std::vector<int>& ranks) const {
  if (ranks.empty()) return "the others to receive what was sent";
  std::string names;
  for (int r : ranks) names += (names.empty() ? "" : ", ") + RankOn(r, At(hosts_, r));
  return names;
}

std::optional<GroupFailure> FailureProtocol::failure() const {
  MutexLock lock(mutex_);
  return failure_;
}

bool FailureProtocol::asked_to_end() const {
  const std::atomic<bool>* asked = asked_to_end_.load(std::memory_order_acquire);
  return asked && asked->load(std::memory_order_relaxed);
}

void FailureProtocol::LogWaitBeforeEnd(std::string_view what,
                                       const std::vector<int>& waits_for) const {
  const bool root_waited_for = std::find(waits_for.begin(), waits_for.end(), 0) != waits_for.end();
  if (rank_ != (root_waited_for ? 1 : 0)) return;
  LogWarning("{} got SIGTERM while it waits for {}: {}", Names({rank_}), Names(waits_for), what);
}

}  // namespace carafe
