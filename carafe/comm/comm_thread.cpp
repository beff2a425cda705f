#include "carafe/comm/comm_thread.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include "carafe/base/error.h"
#include "carafe/base/log.h"
#include "carafe/comm/short_turns.h"

namespace carafe {
namespace {

// Turns without movement before the thread sleeps. Where compute threads have all cores a thread
// that yields waits until their turns are over; one that wakes up may interrupt them.
constexpr int kYieldsIfAwaited = 400;     // the compute thread idles, so a core is free
constexpr double kShortestSleep = 20e-6;  // seconds; grows by half a time
constexpr double kLongestSleep = 1e-3;
constexpr double kLongestSleepIfAwaited = 1e-4;  // the compute thread idles, so a core is free
constexpr double kLongestSleepIfIdle = 5e-3;     // nothing can come but control messages
constexpr double kControlInterval = 2e-3;        // between looks at the control messages
constexpr double kYieldIfDriving = 2e-3;         // a thread that drives yields so long, then sleeps
constexpr double kSpinIfDriving = 1e-3;          // before that, if every rank has a core of its own
constexpr double kStandBy = 1e-3;                // between looks at whether somebody still drives
constexpr double kWaitSlice = 0.1;               // between looks at the clock in a wait

double Now() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

std::string RankOn(int rank, const std::string& host) {
  return host.empty() ? fmt::format("rank {}", rank) : fmt::format("rank {} on {}", rank, host);
}

// A moment of a loop that waits for another core.
void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

int Cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}

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
  }
  thread_.join();
}

// ---- The communication thread ----

void CommThread::Run(const Factory& factory) {
  BlockSignals();
  pthread_setname_np(pthread_self(), "carafe-comm");
  AskForShortTurns();
  prctl(PR_SET_TIMERSLACK, 1000);  // nanoseconds: a short sleep is not to last 50 us longer
  std::exception_ptr error;
  try {
    transport_ = factory();
    shareable_ = transport_->any_thread();
    way_ = transport_->way();
    rank_ = transport_->rank();
    size_ = transport_->size();
    control_ = std::make_unique<Control>(*transport_, timeouts_);
    PollControlFor(timeouts_.wait, [this] { return control_->complete() || control_->failure(); });
    for (int r = 0; r < size_; ++r) hosts_.push_back(control_->host(r));
    spin_ = std::count(hosts_.begin(), hosts_.end(), transport_->host()) <= Cores() ? kSpinIfDriving
                                                                                    : 0;
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
  {
    std::unique_lock lock(mutex_);
    work_.wait_for(lock, std::chrono::duration<double>(kStandBy),
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
  return moved;
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
  double sleep = kShortestSleep;
  for (int i = yields + 1; i < idle_turns && sleep < longest; ++i) sleep *= 1.5;
  sleep = std::min(sleep, longest);
  work_.wait_for(lock, std::chrono::duration<double>(sleep), [this] { return stop_ || woken_; });
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

// ---- The compute thread ----

void CommThread::Post(std::function<void()> task, bool wait_follows) {
  std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  has_tasks_.store(true, std::memory_order_release);
  if (!wait_follows && !driven_.load(std::memory_order_relaxed)) Wake();
}

// With mutex_ held.
void CommThread::Wake() {
  woken_ = true;
  work_.notify_one();
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
    if (now - moved_at < spin_) {
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
  if (shareable_ && !wait_follows) {
    // What is still under way goes on without this thread.
    bool busy = has_tasks_.load(std::memory_order_relaxed);
    if (std::unique_lock drive(drive_, std::try_to_lock); drive)
      busy |=
          std::any_of(pollers_.begin(), pollers_.end(), [](const Poller* p) { return p->Busy(); });
    std::lock_guard lock(mutex_);
    if (busy && !driven_.load(std::memory_order_relaxed)) Wake();
  }
  Check(what);
}

// Once, by rank 0, or by rank 1 where rank 0 is awaited.
void CommThread::TellLastWords(std::string_view what, Poller* poller) {
  if (!poller) return;
  const auto there = std::make_shared<std::promise<std::vector<int>>>();
  std::future<std::vector<int>> answer = there->get_future();
  Post([there, poller] { there->set_value(poller->Awaited()); });
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
  if (poller) RunThere([&] { names = Names(poller->Awaited()); });
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

bool CommThread::AllNoted() noexcept {
  bool all = false;
  RunThere([&] { all = control_->AllNoted(); });
  return all;
}

void CommThread::Abort(const std::string& message) noexcept {
  RunThere([&] {
    if (!wrecked_) transport_->Abort(message);
  });
}

}  // namespace carafe
