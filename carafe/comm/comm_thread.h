// The communication thread of one rank: makes the transport, and runs an event loop over everything
// that polls it. When nothing moves it sleeps, because on a small machine a spinning thread takes
// time from compute (pacing.h). If the transport allows it, a thread that waits polls by itself
// instead, which saves a switch between threads; one thread polls at a time.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "carafe/base/mutex.h"
#include "carafe/base/thread_annotations.h"
#include "carafe/comm/failure_protocol.h"
#include "carafe/comm/message_trace.h"
#include "carafe/comm/pacing.h"
#include "carafe/comm/progress.h"
#include "carafe/comm/timeouts.h"
#include "carafe/comm/transport.h"

namespace carafe {

// Work of the event loop, in small steps that never block. All functions are called by the thread
// that polls, one at a time.
class Poller {
 public:
  virtual ~Poller() = default;
  virtual bool Poll(Transport& transport) = 0;    // true: something moved
  virtual bool Idle() const = 0;                  // no request is open
  virtual bool Busy() const { return !Idle(); }   // something is in progress that should continue
  virtual std::vector<int> WaitsFor() const = 0;  // ranks that have yet to send something
};

// The functions are called by the compute thread (one at a time), unless they say otherwise.
class CommThread {
 public:
  using Factory = std::function<std::unique_ptr<Transport>()>;

  // Calls `factory` on the new thread, rethrows what it throws, and waits for all ranks to start.
  CommThread(Factory factory, const CommTimeouts& timeouts);
  // Waits for the other ranks and finishes the transport if no rank has failed; otherwise just
  // ends.
  ~CommThread();
  CommThread(const CommThread&) = delete;
  CommThread& operator=(const CommThread&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::vector<std::string> hosts() const { return hosts_; }
  const std::string& backend() const { return backend_; }  // see TransportCapabilities
  bool shares_memory() const { return shares_memory_; }    // see TransportCapabilities
  const CommTimeouts& timeouts() const { return timeouts_; }

  // Runs the task on the thread that polls, as soon as it can; in order. What it throws fails the
  // group. Any thread.
  void Post(std::function<void()> task, Progress next = Progress::kByThread);
  // The poller is polled from now on, until it is detached. It must be idle when it is detached,
  // unless the group has failed: otherwise the transport still uses its memory, and is given up.
  void Attach(Poller* poller);
  void Detach(Poller* poller) noexcept;
  // Detaches a poller that owns all memory that it gave to the transport. If it is not idle it is
  // kept until the thread ends.
  void Retire(std::shared_ptr<Poller> poller) noexcept;

  // Blocks until done() is true; done() reads only what pollers and tasks publish with release
  // order. Throws CommError if the group has failed, or if the time is up (which fails it).
  // `poller`, if any, is attached, and names the ranks that are waited for. `next`: who continues
  // after this wait; after kByCaller the caller waits again or calls HandOverProgress. Any thread.
  void Await(std::string_view what, const std::function<bool()>& done, Poller* poller = nullptr,
             Progress next = Progress::kByThread);
  // Call before computing: the communication thread continues what an Await with kByCaller has left
  // in progress, if any. Any thread.
  void HandOverProgress();
  void Check(std::string_view what);  // throws if the group has failed

  // This rank ends with an error; see Group::Fail. Returns whether this rank reports it to the
  // user, after which it calls Reported.
  bool Fail(const std::string& text) noexcept;
  void Reported() noexcept;
  void AnnounceWork(const std::string& work);  // see Group::Announce
  std::optional<GroupFailure> failure() const { return failures_->failure(); }
  bool AllAcknowledged() noexcept;  // see Group::AllKnow
  void Abort(const std::string& message) noexcept;
  // Records the messages of the work (message_trace.h) until StopWatching; both outlive that.
  void WatchMessages(MessageTrace* trace, MessageCounters* counters);
  void StopWatching() noexcept;
  // See Group::WatchForEnd.
  void WatchForEnd(const std::atomic<bool>* asked) { failures_->WatchForEnd(asked); }

 private:
  // The thread that polls while it waits, as seen by the communication thread.
  struct PollingThreadWatch {
    uint64_t polls = 0;     // at `since`
    double since = -1;      // -1: not watched
    bool reported = false;  // that it is stuck
  };

  // The communication thread.
  void Run(const Factory& factory);
  void StartTransport(const Factory& factory) CARAFE_REQUIRES(poll_mutex_);
  void RunLoop();
  void Leave() CARAFE_REQUIRES(poll_mutex_);
  void ReportIfStuck();

  // The thread that polls.
  bool PollOnce() CARAFE_REQUIRES(poll_mutex_);
  bool RunTasks() CARAFE_REQUIRES(poll_mutex_);
  bool PollAll(double now) CARAFE_REQUIRES(poll_mutex_);
  std::vector<int> RanksWaitedFor() const CARAFE_REQUIRES(poll_mutex_);

  // Any other thread.
  bool WaitOrPoll(double seconds, const std::function<bool()>& ready, std::string_view what,
                  Poller* poller);
  bool PollUntil(double seconds, const std::function<bool()>& ready);
  void ResumeProgress();
  void RunAndWait(const std::function<void()>& task) noexcept;
  void FailWait(std::string_view what, double waited, int left, Poller* poller);
  void LogWaitBeforeEnd(std::string_view what, Poller* poller);
  std::string NamesWaitedFor(Poller* poller);
  [[noreturn]] void ThrowFailure(std::string_view what);

  // Constant after construction.
  const CommTimeouts timeouts_;
  int rank_ = 0;
  int size_ = 1;
  std::vector<std::string> hosts_;
  std::string backend_;
  bool shares_memory_ = false;
  bool any_thread_ = false;  // a thread that waits may poll

  // Own synchronisation.
  Pacing pacing_;
  std::unique_ptr<FailureProtocol> failures_;  // poll_mutex_ is held where it must be polled
  std::atomic<int> waiting_{0};                // threads in Await
  std::atomic<int> listening_{0};              // those of them that do not poll
  std::atomic<bool> polled_by_waiter_{false};  // the communication thread stands by
  std::atomic<bool> has_tasks_{false};
  std::atomic<bool> left_to_caller_{false};  // the last Await ended with kByCaller
  std::atomic<uint64_t> polls_{0};

  // Held by the thread that polls: the communication thread, for one poll, or one that waits.
  Mutex poll_mutex_ CARAFE_ACQUIRED_BEFORE(mutex_);
  std::unique_ptr<Transport> transport_ CARAFE_GUARDED_BY(poll_mutex_);
  std::unique_ptr<Transport> traced_ CARAFE_GUARDED_BY(poll_mutex_);  // null: no WatchMessages
  std::vector<Poller*> pollers_ CARAFE_GUARDED_BY(poll_mutex_);
  std::vector<std::shared_ptr<Poller>> retired_ CARAFE_GUARDED_BY(poll_mutex_);

  Mutex mutex_;
  CondVar progress_;  // started, a failure, a task is done, or something moved
  std::vector<std::function<void()>> tasks_ CARAFE_GUARDED_BY(mutex_);
  std::exception_ptr start_error_ CARAFE_GUARDED_BY(mutex_);
  bool started_ CARAFE_GUARDED_BY(mutex_) = false;
  bool acknowledged_ CARAFE_GUARDED_BY(mutex_) = false;  // the compute thread knows of the failure
  std::string_view polling_for_ CARAFE_GUARDED_BY(mutex_);  // what the thread that polls waits for
  Poller* polling_poller_ CARAFE_GUARDED_BY(mutex_) = nullptr;  // the poller of that wait, or null

  PollingThreadWatch watch_;  // of the communication thread
  std::thread thread_;        // last: starts when all other members exist
};

}  // namespace carafe
