// The communication thread of one rank: makes the transport and runs everything that polls it.
// Sleeps when nothing moves, for on a small machine a spinning thread costs compute. Where the
// transport allows it, a thread that waits does this work itself meanwhile, without a hand-over;
// one thread at a time drives.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "carafe/comm/control.h"
#include "carafe/comm/message_trace.h"
#include "carafe/comm/timeouts.h"
#include "carafe/comm/transport.h"

namespace carafe {

// Something that works on the communication thread, or on one that waits, in small steps that never
// block; one thread at a time.
class Poller {
 public:
  virtual ~Poller() = default;
  virtual bool Poll(Transport& transport) = 0;   // true: something moved
  virtual bool Idle() const = 0;                 // no request is open
  virtual bool Busy() const { return !Idle(); }  // something is under way that should go on
  virtual std::vector<int> Awaited() const = 0;  // ranks that have yet to send something
};

// The methods are called by the compute thread (one at a time), unless they say otherwise.
class CommThread {
 public:
  using Factory = std::function<std::unique_ptr<Transport>()>;

  // Calls `factory` on the new thread, rethrows what it throws, and waits for all ranks to greet.
  CommThread(Factory factory, const CommTimeouts& timeouts);
  // Takes leave of the others and finishes the transport if nobody has failed; otherwise just ends.
  ~CommThread();
  CommThread(const CommThread&) = delete;
  CommThread& operator=(const CommThread&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::vector<std::string> hosts() const { return hosts_; }
  const std::string& way() const { return way_; }        // see Transport
  bool shares_memory() const { return shares_memory_; }  // see Transport
  const CommTimeouts& timeouts() const { return timeouts_; }

  // Runs on the thread that drives as soon as it can; in order. What it throws fails the group.
  // `wait_follows`: the caller is about to wait, or nobody waits for it: no thread needs to be
  // woken.
  void Post(std::function<void()> task, bool wait_follows = false);
  // Polled in every turn from now on, until detached. Must be idle when it is detached, unless the
  // group has failed: the transport still holds its memory then, and is given up.
  void Attach(Poller* poller);
  void Detach(Poller* poller) noexcept;
  // Detaches a poller that owns all memory it gave to the transport; it is kept until the thread
  // ends if it is not idle.
  void Retire(std::shared_ptr<Poller> poller) noexcept;

  // Blocks until done() holds; done() reads only what pollers and tasks publish with release
  // order. Throws CommError when the group has failed, or when the time is up (which fails it).
  // `poller`, if any, is attached, and asked whom it awaits. `wait_follows`: see Post.
  void Await(std::string_view what, const std::function<bool()>& done, Poller* poller = nullptr,
             bool wait_follows = false);
  // For whoever promised a wait that did not come: the communication thread goes on with what is
  // under way. By any thread.
  void NoWaitFollows();
  void Check(std::string_view what);  // throws if the group has failed

  // See Group. Fail returns whether this rank is the one to tell the user, after which it calls
  // Spoken.
  bool Fail(const std::string& text) noexcept;
  void Spoken() noexcept;
  void Announce(const std::string& work);
  std::optional<GroupFailure> failure() const;
  bool AllKnow() noexcept;  // see Group
  void Abort(const std::string& message) noexcept;
  // Watches the messages of the work (message_trace.h) until StopWatching; both outlive that.
  void WatchMessages(MessageTrace* trace, MessageCounters* counters);
  void StopWatching() noexcept;
  // See Group::WatchForEnd.
  void WatchForEnd(const std::atomic<bool>* asked) { asked_to_end_ = asked; }

 private:
  void Run(const Factory& factory);
  void Turns();
  bool Turn();
  bool WaitOrDrive(double seconds, const std::function<bool()>& ready, std::string_view what,
                   Poller* poller);
  bool Drive(double seconds, const std::function<bool()>& ready);
  void StandBy();
  void WatchDriver();
  bool Speaks() const;
  bool RunTasks();
  bool PollAll(double now);
  std::vector<int> Waits() const;
  void Rest(int idle_turns, bool idle);
  void Wake();
  void RingIfAsleep();
  void TakeLeave();
  void PollControlFor(double seconds, const std::function<bool()>& until);
  void PollFarewell(const std::function<bool()>& until);
  bool AskedToEnd() const;
  void PublishFailure();
  void RunThere(const std::function<void()>& task) noexcept;
  void GiveUp(std::string_view what, double waited, int gone, Poller* poller);
  void TellLastWords(std::string_view what, Poller* poller);
  void SayLastWords(std::string_view what, const std::vector<int>& awaited);
  std::string Awaited(Poller* poller);
  std::string Names(const std::vector<int>& ranks) const;
  [[noreturn]] void ThrowFailure(std::string_view what);

  const CommTimeouts timeouts_;
  int rank_ = 0;
  int size_ = 1;
  std::vector<std::string> hosts_;
  std::string way_;
  bool shares_memory_ = false;

  // Of whoever holds drive_: the communication thread, for a turn, or a thread that waits.
  std::mutex drive_;                  // before mutex_
  double spin_ = 0;                   // seconds that a thread that drives does not yield
  bool shareable_ = false;            // a thread that waits may drive
  std::shared_ptr<Sleeper> sleeper_;  // of transport_, or null
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Transport> watched_;  // speaks through transport_, while somebody watches
  std::unique_ptr<Control> control_;
  std::vector<Poller*> pollers_;
  double last_control_ = 0;
  double farewell_ends_ = -1;  // -1: has not begun
  std::vector<std::shared_ptr<Poller>> retired_;
  bool wrecked_ = false;  // the transport is gone, since memory that it held is

  mutable std::mutex mutex_;       // guards what follows, but for the atomics
  std::condition_variable work_;   // for the communication thread
  std::condition_variable moved_;  // for the compute thread
  std::vector<std::function<void()>> tasks_;
  std::exception_ptr start_error_;
  std::optional<GroupFailure> failure_;
  bool started_ = false;
  bool stop_ = false;
  bool woken_ = false;
  bool noted_ = false;  // this rank's compute thread knows of the failure
  std::atomic<bool> failed_{false};
  std::atomic<int> waiting_{0};      // in Await
  std::atomic<int> listening_{0};    // of those, who is to be told when something moves
  std::atomic<bool> driven_{false};  // by a thread that waits: the communication thread stands by
  std::atomic<bool> has_tasks_{false};
  std::atomic<int> asleep_{0};  // in sleeper_
  std::atomic<uint64_t> turns_{0};
  std::string_view driver_awaits_;  // guarded by mutex_, as the next
  Poller* driver_poller_ = nullptr;
  uint64_t watched_turn_ = 0;  // of the communication thread, as the next three
  double watched_since_ = -1;
  double stand_by_ = 0;  // seconds of its last wait while somebody drove; 0: of none
  bool said_last_words_ = false;
  std::atomic<bool> others_busy_{false};
  std::atomic<int> long_gone_{-1};  // see Control::LongGone
  std::atomic<const std::atomic<bool>*> asked_to_end_{nullptr};

  std::thread thread_;  // last: starts when all the rest is there
};

}  // namespace carafe
