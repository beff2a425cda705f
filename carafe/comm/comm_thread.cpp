#include "carafe/comm/comm_thread.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <utility>

#include "carafe/base/error.h"
#include "carafe/base/log.h"
#include "carafe/comm/pace.h"
#include "carafe/comm/short_turns.h"

namespace carafe {
namespace {

// Turns without movement before the thread sleeps. Where compute threads have all cores a thread
// that yields waits until their turns are over; one that wakes up may interrupt them.
constexpr int kYieldsIfAwaited = 400;  // the compute thread idles, so a core is free
// While others compute. Every look at the network costs them some 10 us and their caches, and there
// is little that could not wait: whoever waits for it looks by itself.
constexpr double kShortestSleepBeside = 2e-4;
constexpr double kLongestSleep = 1e-3;
constexpr double kLongestSleepIfIdle = 5e-3;  // nothing can come but control messages
constexpr double kControlInterval = 2e-3;     // between looks at the control messages
constexpr double kSpinIfDriving = 1e-3;  // before it yields, if every rank has a core of its own
// Between looks at whether somebody still drives: grows while somebody does. Whoever leaves work
// behind wakes this thread, but others may wait for answers to what they send. With a look every
// millisecond the threads that stood by took a third of the time of short sums from those that
// drove, 4 of each to a core.
constexpr double kShortestStandBy = 1e-3, kLongestStandBy = 8e-3;

int Cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}

// The communication threads of this process: in tests ranks are threads, with hosts of their own by
// name, but the cores that they have are the same.
class CountedThread {
 public:
  CountedThread() { ++count_; }
  CountedThread(const CountedThread&) = delete;
  CountedThread& operator=(const CountedThread&) = delete;
  ~CountedThread() { --count_; }
  static int64_t count() { return count_; }

 private:
  static inline std::atomic<int64_t> count_{0};
};

// Signals are for the program's own threads; so are those of the threads that MPI starts from here.
void BlockSignals() {
  sigset_t signals;
  sigfillset(&signals);
  for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigdelset(&signals, fault);
  pthread_sigmask(SIG_SETMASK, &signals, nullptr);
}

}  // namespace

CommThread::CommThread(Factory factory, const CommTimeouts& timeouts) : timeouts_(timeouts) {
  thread_ = std::thread([this, factory = std::move(factory)] { Run(factory); });
  {
    std::unique_lock lock(mutex_);
    moved_.wait(lock, [this] { return started_; });
  }
  if (start_error_) {
    thread_.join();
    std::rethrow_exception(start_error_);
  }
}

CommThread::~CommThread() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    work_.notify_all();
    RingIfAsleep();
  }
  thread_.join();
}

void CommThread::Run(const Factory& factory) {
  const CountedThread counted;
  BlockSignals();
  pthread_setname_np(pthread_self(), "carafe-comm");
  AskForShortTurns();
  prctl(PR_SET_TIMERSLACK, 1000);  // nanoseconds: a short sleep is not to last 50 us longer
  std::exception_ptr error;
  try {
    transport_ = factory();
    shareable_ = transport_->any_thread();
    sleeper_ = transport_->sleeper();
    way_ = transport_->way();
    shares_memory_ = transport_->shares_memory();
    rank_ = transport_->rank();
    size_ = transport_->size();
    control_ = std::make_unique<Control>(*transport_, timeouts_, [this] { return Waits(); });
    PollControlFor(timeouts_.wait, [this] { return control_->complete() || control_->failure(); });
    for (int r = 0; r < size_; ++r) hosts_.push_back(control_->host(r));
    const int64_t neighbours = std::count(hosts_.begin(), hosts_.end(), transport_->host());
    spin_ = std::max(neighbours, CountedThread::count()) <= Cores() ? kSpinIfDriving : 0;
    if (!control_->complete() && !control_->failure()) {
      std::vector<int> missing;
      for (int r = 0; r < size_; ++r)
        if (hosts_[r].empty()) missing.push_back(r);
      throw CommError(fmt::format("rank {} on {} waited {:.0f} s for {} to start", rank_,
                                  hosts_[rank_], timeouts_.wait, Names(missing)),
                      "look at the output of those ranks, and at the network between the hosts");
    }
    PublishFailure();
  } catch (...) {
    error = std::current_exception();
    transport_.reset();  // before the memory that it holds
    control_.reset();
  }
  {
    std::lock_guard lock(mutex_);
    start_error_ = error;
    started_ = true;
    moved_.notify_all();
  }
  if (error) return;
  Turns();
  TakeLeave();
  transport_.reset();  // before the memory that it holds
  control_.reset();
  retired_.clear();
}

void CommThread::Turns() {
  int idle_turns = 0;
  while (true) {
    if (driven_.load(std::memory_order_acquire)) {
      StandBy();
      continue;
    }
    watched_since_ = -1;
    stand_by_ = 0;
    bool moved = false;
    bool idle = false;
    {
      std::lock_guard drive(drive_);
      moved = Turn();
      idle =
          std::all_of(pollers_.begin(), pollers_.end(), [](const Poller* p) { return p->Idle(); });
    }
    {
      std::lock_guard lock(mutex_);
      if (stop_ && tasks_.empty()) return;
    }
    idle_turns = moved ? 0 : idle_turns + 1;
    if (!moved) Rest(idle_turns, idle);
  }
}

// With drive_ held. Says whether anything moved.
bool CommThread::Turn() {
  bool moved = RunTasks();
  try {
    moved |= PollAll(Now());
  } catch (const std::exception& error) {
    if (!control_->failure()) control_->Poll(Now());  // a peer that fails may have said why
    control_->Fail({rank_, false, error.what()});
    moved = true;
  }
  PublishFailure();
  turns_.fetch_add(1, std::memory_order_relaxed);
  if (moved && listening_.load(std::memory_order_seq_cst) > 0) {
    std::lock_guard lock(mutex_);
    moved_.notify_all();
  }
  return moved;
}

// Somebody drives while it waits. Wakes now and then: that thread may have left with work under
// way, or may be stuck.
void CommThread::StandBy() {
  stand_by_ = std::clamp(2 * stand_by_, kShortestStandBy, kLongestStandBy);
  {
    std::unique_lock lock(mutex_);
    work_.wait_for(lock, std::chrono::duration<double>(stand_by_),
                   [this] { return stop_ || !driven_.load(std::memory_order_relaxed); });
  }
  WatchDriver();
}

// Open MPI stops a thread inside of MPI when a peer is gone, and the launcher ends this process a
// second later: what was awaited is said here then.
void CommThread::WatchDriver() {
  const uint64_t turn = turns_.load(std::memory_order_relaxed);
  if (!AskedToEnd() || turn != watched_turn_ || watched_since_ < 0) {
    watched_turn_ = turn;
    watched_since_ = Now();
    return;
  }
  if (said_last_words_ || Now() - watched_since_ < timeouts_.last_words) return;
  std::string what;
  std::vector<int> awaited;
  {
    std::lock_guard lock(mutex_);
    if (!driver_poller_) return;
    what = driver_awaits_;
    awaited = driver_poller_->Awaited();  // nothing moves it
  }
  said_last_words_ = true;
  SayLastWords(what, awaited);
}

bool CommThread::RunTasks() {
  if (!has_tasks_.load(std::memory_order_acquire)) return false;
  std::vector<std::function<void()>> tasks;
  {
    std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
    has_tasks_.store(false, std::memory_order_relaxed);
  }
  for (const auto& task : tasks) {
    try {
      task();
    } catch (const std::exception& error) {
      control_->Fail({rank_, false, error.what()});
    }
  }
  return !tasks.empty();
}

bool CommThread::PollAll(double now) {
  bool moved = false;
  if (wrecked_) return false;
  if (now - last_control_ >= kControlInterval) {
    last_control_ = now;
    control_->SetHurry(AskedToEnd());
    moved |= control_->Poll(now);
    others_busy_.store(control_->AnyoneBusy(), std::memory_order_relaxed);
    long_gone_.store(control_->LongGone(), std::memory_order_relaxed);
  }
  if (control_->failure()) return moved;
  Transport& transport = watched_ ? *watched_ : *transport_;
  for (Poller* poller : pollers_) moved |= poller->Poll(transport);
  // One poller's question may have brought what another had asked for just before.
  return transport_->TakeNews() || moved;
}

// The ranks for which a thread of this one waits; none while all compute. By whoever drives.
std::vector<int> CommThread::Waits() const {
  std::vector<int> ranks;
  if (waiting_.load(std::memory_order_relaxed) == 0) return ranks;
  for (const Poller* poller : pollers_) {
    const std::vector<int> more = poller->Awaited();
    ranks.insert(ranks.end(), more.begin(), more.end());
  }
  return ranks;
}

void CommThread::Rest(int idle_turns, bool idle) {
  const bool awaited = waiting_.load(std::memory_order_relaxed) > 0;
  const int yields = awaited ? kYieldsIfAwaited : 0;
  if (idle_turns <= yields) {
    sched_yield();
    return;
  }
  double longest = idle ? kLongestSleepIfIdle : kLongestSleep;
  std::unique_lock lock(mutex_);
  if (awaited) longest = kLongestSleepIfAwaited;
  double sleep = awaited ? kShortestSleep : sleeper_ ? sleeper_->Rest() : kShortestSleepBeside;
  for (int i = yields + 1; i < idle_turns && sleep < longest; ++i) sleep *= 1.5;
  sleep = std::min(sleep, longest);
  if (sleeper_ && idle_turns > yields + 1 && !stop_ && !woken_) {
    asleep_.fetch_add(1, std::memory_order_seq_cst);
    lock.unlock();
    sleeper_->Sleep(kLongestSleepIfIdle);
    lock.lock();
    asleep_.fetch_sub(1, std::memory_order_relaxed);
  } else {
    work_.wait_for(lock, std::chrono::duration<double>(sleep), [this] { return stop_ || woken_; });
  }
  woken_ = false;
}

void CommThread::PublishFailure() {
  if (!control_->failure() || failed_.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(mutex_);
  failure_ = control_->failure();
  failed_.store(true, std::memory_order_release);
  moved_.notify_all();
}

void CommThread::PollControlFor(double seconds, const std::function<bool()>& until) {
  const double end = Now() + seconds;
  double sleep = kShortestSleep;
  while (!until() && Now() < end) {
    control_->SetHurry(AskedToEnd());
    if (control_->Poll(Now())) {
      sleep = kShortestSleep;
      continue;
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(sleep));
    sleep = std::min(sleep * 1.5, kLongestSleep);
  }
}

// After a failure the last words share one deadline: a peer that hangs must not delay every step.
void CommThread::PollFarewell(const std::function<bool()>& until) {
  if (farewell_ends_ < 0) farewell_ends_ = Now() + timeouts_.farewell;
  PollControlFor(farewell_ends_ - Now(), until);
}

bool CommThread::AskedToEnd() const {
  const std::atomic<bool>* asked = asked_to_end_.load(std::memory_order_acquire);
  return asked && asked->load(std::memory_order_relaxed);
}

void CommThread::TakeLeave() {
  if (wrecked_) return;
  try {
    if (!control_->failure()) {
      control_->Leave();
      PollControlFor(timeouts_.wait, [this] {
        return control_->failure() || (control_->AllLeft() && control_->Settled());
      });
      if (!control_->failure() && control_->AllLeft() && control_->Settled()) {
        transport_->Finish();
      } else {
        LogWarning("rank {} on {} ends, although not all other ranks have", rank_, hosts_[rank_]);
      }
    } else {
      PollFarewell([this] { return control_->Settled(); });
    }
  } catch (const std::exception& error) {
    LogWarning("taking leave of the other ranks: {}", error.what());
  }
}

}  // namespace carafe
