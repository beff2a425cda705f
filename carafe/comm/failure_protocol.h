// What happens when a rank fails, falls silent or ends: every rank learns of the failure, one rank
// reports it to the user, and all end together. A launcher kills the other ranks as soon as the
// first one ends, so no rank ends before the report is out.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "carafe/base/mutex.h"
#include "carafe/base/thread_annotations.h"
#include "carafe/comm/control.h"
#include "carafe/comm/timeouts.h"
#include "carafe/comm/transport.h"

namespace carafe {

std::string RankOn(int rank,
                   const std::string& host);  // "rank 1 on node2", or "rank 1"

// Used by the thread that polls the transport, one at a time; functions under "Any thread" are safe
// at any time.
class FailureProtocol {
 public:
  // The references outlive the object. `waits`: see Control. `on_failure` is called once, when
  // other threads can see the failure.
  FailureProtocol(Transport& transport, const CommTimeouts& timeouts, Control::Waits waits,
                  std::function<void()> on_failure);

  // Waits for the host names of all ranks, and returns them. Throws CommError if a rank does not
  // come in time.
  std::vector<std::string> Start();

  // Control messages, at most every few milliseconds. Returns whether anything happened.
  bool Poll(double now);
  // This rank fails, unless the group has failed already. `text` is sent to all ranks.
  void Fail(const std::string& text);
  bool has_failure() const { return control_.failure().has_value(); }
  void Publish();  // makes the failure, if there is one, visible to other threads
  // The transport is about to be destroyed because memory that it uses is freed: nothing more is
  // sent or received.
  void OnTransportLost();
  bool transport_lost() const { return transport_lost_; }

  // ---- The end of this rank ----

  // The compute thread ends with an error. Waits until all ranks know of it, or of the failure that
  // came before. Returns whether this rank reports it to the user, after which it calls Reported.
  bool FailAndChooseReporter(const std::string& text);
  void Reported();
  void Acknowledge();  // the compute thread knows of the failure
  bool AllAcknowledged() const;
  void AnnounceWork(const std::string& work);  // see Control
  // Announces that this rank is done, and waits until all are. True: Finish() of the
  // transport may be called.
  bool Leave();

  // ---- Waits ----

  // The ranks that a wait for `waits_for` waits for in the end (Control::EndOfWaits).
  std::vector<int> EndOfWaits(const std::vector<int>& waits_for) const {
    return control_.EndOfWaits(waits_for);
  }

  // ---- Any thread, after Start ----

  std::string Names(const std::vector<int>& ranks) const;
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  std::optional<GroupFailure> failure() const;
  bool others_busy() const { return others_busy_.load(std::memory_order_relaxed); }
  int left_long_ago() const { return left_long_ago_.load(std::memory_order_relaxed); }
  // `asked` becomes true when this process is asked to end; it outlives the object.
  void WatchForEnd(const std::atomic<bool>* asked) { asked_to_end_ = asked; }
  bool asked_to_end() const;
  // Logs what this rank waits for, because a launcher ends it soon: on rank 0 only, or on rank 1 if
  // rank 0 is waited for.
  void LogWaitBeforeEnd(std::string_view what, const std::vector<int>& waits_for) const;

 private:
  bool IsReporter() const;
  void PollUntil(double seconds, const std::function<bool()>& done);
  void PollFarewell(const std::function<bool()>& done);

  // Constant after Start.
  const CommTimeouts& timeouts_;
  const std::function<void()> on_failure_;
  const int rank_;
  std::vector<std::string> hosts_;

  // Of the thread that polls.
  Control control_;
  double last_poll_ = 0;
  double farewell_ends_ = -1;  // -1: has not begun
  bool transport_lost_ = false;

  // For all threads.
  std::atomic<bool> failed_{false};
  std::atomic<bool> others_busy_{false};
  std::atomic<int> left_long_ago_{-1};  // see Control
  std::atomic<const std::atomic<bool>*> asked_to_end_{nullptr};
  mutable Mutex mutex_;
  std::optional<GroupFailure> failure_ CARAFE_GUARDED_BY(mutex_);
};

}  // namespace carafe
