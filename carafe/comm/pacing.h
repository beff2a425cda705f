// When the threads that poll a transport spin, yield or sleep, and how they are woken. On a small
// machine a spinning thread takes time from the threads that compute.
#pragma once

#include <atomic>
#include <memory>

#include "carafe/base/mutex.h"
#include "carafe/base/thread_annotations.h"
#include "carafe/comm/transport.h"

namespace carafe {

class Pacing {
 public:
  // By the communication thread, before any other call. `waiter` is the transport's, or null.
  // `core_per_rank`: every rank of this host has a core of its own, so waiting threads may spin.
  void Start(std::shared_ptr<Waiter> waiter, bool core_per_rank);

  // ---- Any thread ----
  void Wake();         // the communication thread
  void WakeSleeper();  // a thread that sleeps in the transport's waiter, if
                       // there is one
  void Stop();         // wakes the communication thread, and all its later waits end at once
  bool stopped() const;

  // ---- The communication thread ----
  void OnProgress() { idle_polls_ = 0; }
  // After a poll that moved nothing. `waited_for`: a thread of this rank waits for messages.
  // `idle`: no request is open but those for control messages.
  void Rest(bool waited_for, bool idle);
  // While another thread polls: returns when it has stopped, after Stop, or after some
  // milliseconds, because that thread may leave work behind or be stuck.
  void StandBy(const std::atomic<bool>& other_thread_polls);
  void EndStandBy() { stand_by_ = 0; }

 private:
  friend class WaitingPace;

  // Constant after Start.
  std::shared_ptr<Waiter> waiter_;
  double spin_ = 0;  // seconds that a waiting thread does not yield its core

  std::atomic<int> sleepers_{0};  // threads in waiter_

  // Of the communication thread.
  int idle_polls_ = 0;   // in sequence
  double stand_by_ = 0;  // seconds of the last StandBy; 0 after EndStandBy

  mutable Mutex mutex_;
  CondVar wake_;
  bool stop_ CARAFE_GUARDED_BY(mutex_) = false;
  bool woken_ CARAFE_GUARDED_BY(mutex_) = false;
};

// The pace of a thread that polls while it waits. Made and used by that thread.
class WaitingPace {
 public:
  explicit WaitingPace(Pacing& pacing);
  void OnProgress(double now);
  // After a poll that moved nothing: for at most `seconds`, or until there may be something to do.
  // `has_tasks` is set before WakeSleeper is called.
  void Rest(double now, double seconds, const std::atomic<bool>& has_tasks);

 private:
  Pacing& pacing_;
  double progress_at_;
  double sleep_;
};

// For loops that poll without a waiter: sleeps for a time that grows from call to call.
class Backoff {
 public:
  void Reset();
  void Sleep();

 private:
  double sleep_ = 0;
};

}  // namespace carafe
