// What the compute thread, or any but the communication thread, asks of it: tasks, waits in which
// it may drive itself, failures and farewells.
#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include "carafe/base/error.h"
#include "carafe/base/log.h"
#include "carafe/comm/comm_thread.h"
#include "carafe/comm/pace.h"

namespace carafe {
namespace {

constexpr double kYieldIfDriving = 2e-3;  // a thread that drives yields so long, then sleeps
// Where messages wake who waits for them. Yielding first keeps the core awake, and costs nobody
// else anything; a core that sleeps takes some 50 us to wake up on a virtual machine.
constexpr double kYieldBeforeSleep = 2e-4;
constexpr double kLongestSleepIfDriving = 2e-3;  // control messages are looked at in between
constexpr double kWaitSlice = 0.1;               // between looks at the clock in a wait

std::string RankOn(int rank, const std::string& host) {
  return host.empty() ? fmt::format("rank {}", rank) : fmt::format("rank {} on {}", rank, host);
}

// A moment of a loop that waits for another core.
void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

void CommThread::Post(std::function<void()> task, bool wait_follows) {
  std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  has_tasks_.store(true, std::memory_order_seq_cst);
  if (driven_.load(std::memory_order_relaxed)) {
    RingIfAsleep();
  } else if (!wait_follows) {
    Wake();
  }
}

void CommThread::RingIfAsleep() {
  if (asleep_.load(std::memory_order_seq_cst) > 0) sleeper_->WakeUp();
}

// With mutex_ held.
void CommThread::Wake() {
  woken_ = true;
  work_.notify_one();
  RingIfAsleep();
}

// Runs the task on the communication thread and waits for it, whatever state the group is in.
void CommThread::RunThere(const std::function<void()>& task) noexcept {
  bool done = false;
  Post([&] {
    try {
      task();
    } catch (const std::exception& error) {
      LogWarning("on the communication thread: {}", error.what());
    }
    std::lock_guard lock(mutex_);
    done = true;
    moved_.notify_all();
  });
  std::unique_lock lock(mutex_);
  moved_.wait(lock, [&] { return done; });
}

void CommThread::Attach(Poller* poller) {
  Post([this, poller] { pollers_.push_back(poller); });
}

void CommThread::Detach(Poller* poller) noexcept {
  RunThere([&] {
    std::erase(pollers_, poller);
    if (poller->Idle() || wrecked_) return;
    control_->Fail({rank_, false, "left the others in the middle of an exchange"});
    PollFarewell([this] { return control_->Settled(); });
    wrecked_ = true;
    transport_.reset();
  });
}

void CommThread::Retire(std::shared_ptr<Poller> poller) noexcept {
  RunThere([&] {
    std::erase(pollers_, poller.get());
    if (!poller->Idle()) retired_.push_back(std::move(poller));
  });
}

// Whether `ready` came to hold.
bool CommThread::WaitOrDrive(double seconds, const std::function<bool()>& ready,
                             std::string_view what, Poller* poller) {
  if (shareable_ && !driven_.exchange(true, std::memory_order_acq_rel)) {
    {
      std::lock_guard lock(mutex_);
      driver_awaits_ = what;
      driver_poller_ = poller;
    }
    const bool is_ready = Drive(seconds, ready);
    std::lock_guard lock(mutex_);
    driver_poller_ = nullptr;
    driven_.store(false, std::memory_order_release);
    if (listening_.load(std::memory_order_relaxed) > 0) moved_.notify_all();  // another may drive
    return is_ready;
  }
  listening_.fetch_add(1, std::memory_order_seq_cst);
  std::unique_lock lock(mutex_);
  if (!shareable_) Wake();
  const auto until = [&] {
    return ready() || (shareable_ && !driven_.load(std::memory_order_relaxed));
  };
  moved_.wait_for(lock, std::chrono::duration<double>(seconds), until);
  listening_.fetch_sub(1, std::memory_order_relaxed);
  return ready();
}

// The work of the communication thread, which ends its turn and then stands by.
bool CommThread::Drive(double seconds, const std::function<bool()>& ready) {
  thread_local const int fine_sleeps = prctl(PR_SET_TIMERSLACK, 1000);
  (void)fine_sleeps;
  std::lock_guard drive(drive_);
  const double end = Now() + seconds;
  double moved_at = Now();
  double sleep = kShortestSleep;
  while (!ready()) {
    const bool moved = Turn();
    const double now = Now();
    if (moved) {
      moved_at = now;
      sleep = kShortestSleep;
      continue;
    }
    if (now >= end) return ready();
    if (sleeper_) {
      if (now - moved_at < kYieldBeforeSleep) {
        sched_yield();
        continue;
      }
      asleep_.fetch_add(1, std::memory_order_seq_cst);
      if (!has_tasks_.load(std::memory_order_seq_cst))
        sleeper_->Sleep(std::min(end - now, kLongestSleepIfDriving));
      asleep_.fetch_sub(1, std::memory_order_relaxed);
    } else if (now - moved_at < spin_) {
      for (int i = 0; i < 10; ++i) Pause();
    } else if (now - moved_at < kYieldIfDriving) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(std::chrono::duration<double>(sleep));
      sleep = std::min(sleep * 1.5, kLongestSleepIfAwaited);
    }
  }
  return true;
}

void CommThread::Await(std::string_view what, const std::function<bool()>& done, Poller* poller,
                       bool wait_follows) {
  Check(what);
  if (done()) return;
  double waited = 0;
  double waited_in_hurry = 0;
  bool warned = false;
  const auto ready = [&] { return failed_.load(std::memory_order_acquire) || done(); };
  ++waiting_;
  while (true) {
    const double before = Now();
    if (WaitOrDrive(kWaitSlice, ready, what, poller)) break;
    // Time in which this process was stopped counts little, and a peer's announced work not at all.
    const double step = std::min(Now() - before, 1.0);
    if (!others_busy_.load(std::memory_order_relaxed)) waited += step;
    if (AskedToEnd()) waited_in_hurry += step;
    const int gone = long_gone_.load(std::memory_order_relaxed);
    const bool late = waited >= timeouts_.wait || gone >= 0;
    // A launcher that ends the ranks because one has died leaves them a second: say it now.
    const bool last_words = waited_in_hurry >= timeouts_.last_words;
    if (!late && (warned || (waited < timeouts_.warning && !last_words))) continue;
    if (late) GiveUp(what, waited, gone, poller);
    if (!late && last_words) TellLastWords(what, poller);
    if (!late && !last_words)
      LogWarning("rank {} has waited {:.1f} s for {}: {}", rank_, waited, Awaited(poller), what);
    warned = true;
  }
  --waiting_;
  if (!wait_follows) NoWaitFollows();
  Check(what);
}

void CommThread::NoWaitFollows() {
  if (!shareable_) return;
  bool busy = has_tasks_.load(std::memory_order_relaxed);
  if (std::unique_lock drive(drive_, std::try_to_lock); drive)
    busy |=
        std::any_of(pollers_.begin(), pollers_.end(), [](const Poller* p) { return p->Busy(); });
  std::lock_guard lock(mutex_);
  if (busy && !driven_.load(std::memory_order_relaxed)) Wake();
}

// Once, by rank 0, or by rank 1 where rank 0 is awaited.
void CommThread::TellLastWords(std::string_view what, Poller* poller) {
  if (!poller) return;
  const auto there = std::make_shared<std::promise<std::vector<int>>>();
  std::future<std::vector<int>> answer = there->get_future();
  Post([this, there, poller] { there->set_value(control_->AwaitedInTheEnd(poller->Awaited())); });
  // Open MPI stops the communication thread inside of MPI when a peer is gone: then nothing moves
  // the poller, and it can be asked from here.
  const bool stuck = answer.wait_for(std::chrono::milliseconds(200)) != std::future_status::ready;
  SayLastWords(what, stuck ? poller->Awaited() : answer.get());
}

void CommThread::SayLastWords(std::string_view what, const std::vector<int>& awaited) {
  const bool root_awaited = std::find(awaited.begin(), awaited.end(), 0) != awaited.end();
  if (rank_ != (root_awaited ? 1 : 0)) return;
  LogWarning("rank {} on {} was told to end (SIGTERM) while it waits for {}: {}", rank_,
             hosts_[rank_], Names(awaited), what);
}

// Fails the group, so that the wait ends.
void CommThread::GiveUp(std::string_view what, double waited, int gone, Poller* poller) {
  std::string text;
  if (gone >= 0) {
    text = fmt::format("{} has ended its work, but is awaited here: {}", Names({gone}), what);
  } else {
    text = fmt::format(
        "waited {:.1f} s for {}: {}\n  fix: look at what that rank does; raise "
        "--comm_timeout if it is only slow",
        waited, Awaited(poller), what);
  }
  RunThere([&] {
    control_->Fail({rank_, false, text});
    PublishFailure();
  });
}

std::string CommThread::Awaited(Poller* poller) {
  std::string names = "the others";
  if (poller) RunThere([&] { names = Names(control_->AwaitedInTheEnd(poller->Awaited())); });
  return names;
}

std::string CommThread::Names(const std::vector<int>& ranks) const {
  if (ranks.empty()) return "the others to take what was sent";
  std::string names;
  for (int r : ranks) names += (names.empty() ? "" : ", ") + RankOn(r, hosts_[r]);
  return names;
}

void CommThread::Check(std::string_view what) {
  if (failed_.load(std::memory_order_acquire)) ThrowFailure(what);
}

void CommThread::ThrowFailure(std::string_view what) {
  bool first;
  GroupFailure failure;
  {
    std::lock_guard lock(mutex_);
    failure = *failure_;
    first = !std::exchange(noted_, true);
  }
  if (first)
    Post([this] {
      if (!wrecked_) control_->TakeNote();
    });
  const std::string who = RankOn(failure.rank, hosts_[failure.rank]);
  if (failure.dead)
    throw CommError(fmt::format("{} is lost: {}; awaited here: {}", who, failure.text, what),
                    "look at the output and the system log of that host; then resume from the "
                    "last snapshot");
  throw CommError(fmt::format("{}: {}", who, failure.text), "");
}

bool CommThread::Fail(const std::string& text) noexcept {
  {
    std::lock_guard lock(mutex_);
    noted_ = true;
  }
  bool speak = true;
  RunThere([&] {
    if (wrecked_) {
      speak = control_->failure()->rank == rank_ || Speaks();
      return;
    }
    control_->Poll(Now());
    if (control_->failure()) {
      control_->TakeNote();
    } else {
      control_->Fail({rank_, false, text});
    }
    PublishFailure();
    if (control_->failure()->rank == rank_)
      PollControlFor(timeouts_.farewell, [this] { return control_->AllNoted(); });
    speak = Speaks();
    if (speak) control_->Speak(false);
    // Nobody ends before the user was told: a launcher kills the others when the first one ends.
    if (!speak) PollControlFor(2 * timeouts_.farewell, [this] { return control_->spoken(); });
  });
  return speak;
}

// Rank 0 does, or the culprit if rank 0 took no note, or rank 1 if rank 0 is lost.
bool CommThread::Speaks() const {
  const GroupFailure& failure = *control_->failure();
  if (control_->speaking()) return false;
  if (failure.dead) return rank_ == (failure.rank == 0 ? 1 : 0);
  return rank_ == 0 || (failure.rank == rank_ && !control_->Noted(0));
}

void CommThread::Spoken() noexcept {
  RunThere([&] {
    if (wrecked_) return;
    control_->Speak(true);
    PollFarewell([this] { return control_->Settled(); });
  });
}

void CommThread::Announce(const std::string& work) {
  Post([this, work] {
    if (!wrecked_) control_->Announce(work);
  });
}

std::optional<GroupFailure> CommThread::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

void CommThread::WatchMessages(MessageTrace* trace, MessageCounters* counters) {
  RunThere([&] {
    if (!wrecked_) watched_ = carafe::WatchMessages(*transport_, trace, counters);
  });
}

void CommThread::StopWatching() noexcept {
  RunThere([&] { watched_.reset(); });
}

bool CommThread::AllKnow() noexcept {
  bool all = false;
  RunThere([&] {
    const std::optional<GroupFailure>& failure = control_->failure();
    all = control_->AllNoted() && !(failure && failure->dead);
  });
  return all;
}

void CommThread::Abort(const std::string& message) noexcept {
  RunThere([&] {
    if (!wrecked_) transport_->Abort(message);
  });
}

}  // namespace carafe
