// The event loop: what runs on the communication thread.
#include "carafe/comm/comm_thread.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "carafe/base/error.h"
#include "carafe/base/log.h"
#include "carafe/comm/clock.h"
#include "carafe/comm/scheduling.h"

namespace carafe {
namespace {

int Cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}

// Counts the communication threads of this process: in tests ranks are threads, with different host
// names, but they share the same cores.
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

// Signals are for the program's own threads, not for this one and the threads that MPI starts here.
void BlockSignals() {
  sigset_t signals;
  sigfillset(&signals);
  for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigdelset(&signals, fault);
  pthread_sigmask(SIG_SETMASK, &signals, nullptr);
}

}  // namespace

CommThread::CommThread(Factory factory, const CommTimeouts& timeouts) : timeouts_(timeouts) {
  thread_ = std::thread([this, factory = std::move(factory)] { Run(factory); });
  std::exception_ptr error;
  {
    MutexLock lock(mutex_);
    while (!started_) progress_.Wait(mutex_);
    error = start_error_;
  }
  if (error) {
    thread_.join();
    std::rethrow_exception(error);
  }
}

CommThread::~CommThread() {
  pacing_.Stop();
  thread_.join();
}

void CommThread::Run(const Factory& factory) {
  const CountedThread counted;
  BlockSignals();
  pthread_setname_np(pthread_self(), "carafe-comm");
  RequestShortTimeSlices();
  prctl(PR_SET_TIMERSLACK,
        1000);  // nanoseconds: short sleeps do not last 50 us longer
  std::exception_ptr error;
  try {
    MutexLock polling(poll_mutex_);
    StartTransport(factory);
  } catch (...) {
    error = std::current_exception();
    MutexLock polling(poll_mutex_);
    transport_.reset();  // before the memory that it uses
    failures_.reset();
  }
  {
    MutexLock lock(mutex_);
    start_error_ = error;
    started_ = true;
    progress_.NotifyAll();
  }
  if (error) return;
  RunLoop();
  MutexLock polling(poll_mutex_);
  Leave();
  transport_.reset();  // before the memory that it uses
  retired_.clear();
}

void CommThread::StartTransport(const Factory& factory) {
  transport_ = factory();
  const TransportCapabilities& capabilities = transport_->capabilities();
  any_thread_ = capabilities.any_thread;
  backend_ = capabilities.backend;
  shares_memory_ = capabilities.shares_memory;
  rank_ = transport_->rank();
  size_ = transport_->size();
  const auto waits = [this] {
    poll_mutex_.AssertHeld();
    return RanksWaitedFor();
  };
  failures_ = std::make_unique<FailureProtocol>(*transport_, timeouts_, waits, [this] {
    MutexLock lock(mutex_);
    progress_.NotifyAll();
  });
  hosts_ = failures_->Start();
  const int64_t neighbours = std::count(hosts_.begin(), hosts_.end(), transport_->host());
  pacing_.Start(capabilities.waiter, std::max(neighbours, CountedThread::count()) <= Cores());
  failures_->Publish();
}

void CommThread::RunLoop() {
  while (true) {
    if (polled_by_waiter_.load(std::memory_order_acquire)) {
      pacing_.StandBy(polled_by_waiter_);
      ReportIfStuck();
      continue;
    }
    watch_.since = -1;
    pacing_.EndStandBy();
    bool moved = false;
    bool idle = true;
    {
      MutexLock polling(poll_mutex_);
      moved = PollOnce();
      for (const Poller* poller : pollers_) idle &= poller->Idle();
    }
    if (pacing_.stopped() && !has_tasks_.load(std::memory_order_acquire)) return;
    if (moved) {
      pacing_.OnProgress();
    } else {
      pacing_.Rest(waiting_.load(std::memory_order_relaxed) > 0, idle);
    }
  }
}

// Returns whether anything moved.
bool CommThread::PollOnce() {
  bool moved = RunTasks();
  try {
    moved |= PollAll(Now());
  } catch (const std::exception& error) {
    failures_->Fail(error.what());
    moved = true;
  }
  failures_->Publish();
  polls_.fetch_add(1, std::memory_order_relaxed);
  if (moved && listening_.load(std::memory_order_seq_cst) > 0) {
    MutexLock lock(mutex_);
    progress_.NotifyAll();
  }
  return moved;
}

bool CommThread::RunTasks() {
  if (!has_tasks_.load(std::memory_order_acquire)) return false;
  std::vector<std::function<void()>> tasks;
  {
    MutexLock lock(mutex_);
    tasks.swap(tasks_);
    has_tasks_.store(false, std::memory_order_relaxed);
  }
  for (const auto& task : tasks) {
    try {
      task();
    } catch (const std::exception& error) {
      failures_->Fail(error.what());
    }
  }
  return !tasks.empty();
}

bool CommThread::PollAll(double now) {
  bool moved = failures_->Poll(now);
  if (failures_->has_failure()) return moved;
  Transport& transport = traced_ ? *traced_ : *transport_;
  for (Poller* poller : pollers_) moved |= poller->Poll(transport);
  // Polling for one poller may have completed requests of another that was polled before.
  return transport_->TakeCompletions() || moved;
}

// The ranks that a thread of this rank waits for; none while all compute.
std::vector<int> CommThread::RanksWaitedFor() const {
  std::vector<int> ranks;
  if (waiting_.load(std::memory_order_relaxed) == 0) return ranks;
  for (const Poller* poller : pollers_) {
    const std::vector<int> more = poller->WaitsFor();
    ranks.insert(ranks.end(), more.begin(), more.end());
  }
  return ranks;
}

// Open MPI blocks a thread inside of MPI when a peer is gone, and the launcher ends this process a
// second later: if the thread that polls is stuck there, this one logs what it waited for.
void CommThread::ReportIfStuck() {
  const uint64_t polls = polls_.load(std::memory_order_relaxed);
  if (!failures_->asked_to_end() || polls != watch_.polls || watch_.since < 0) {
    watch_.polls = polls;
    watch_.since = Now();
    return;
  }
  if (watch_.reported || Now() - watch_.since < timeouts_.last_words) return;
  std::string what;
  std::vector<int> waits_for;
  {
    MutexLock lock(mutex_);
    if (!polling_poller_) return;
    what = polling_for_;
    waits_for = polling_poller_->WaitsFor();  // safe, because the thread that polls does not move
  }
  watch_.reported = true;
  failures_->LogWaitBeforeEnd(what, waits_for);
}

void CommThread::Leave() {
  try {
    if (failures_->Leave()) transport_->Finish();
  } catch (const std::exception& error) {
    LogWarning("while leaving the group: {}", error.what());
  }
}

}  // namespace carafe
