#include "carafe/comm/pacing.h"

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "carafe/comm/clock.h"

namespace carafe {
namespace {

// All times are seconds.

// The communication thread sleeps after this many polls without progress if a thread of this rank
// waits, because a core is free then. If the compute threads have all cores, a thread that yields
// waits until their time slices are over; one that wakes up may preempt them.
constexpr int kYieldsIfWaitedFor = 400;
// While other threads compute: every poll costs them about 10 us and their caches, and there is
// little that cannot wait, since a thread that waits polls by itself.
constexpr double kMinSleepBesideCompute = 2e-4;
constexpr double kMinSleep = 20e-6;  // each sleep is half as long again as the one before
constexpr double kMaxSleepIfWaitedFor = 1e-4;
constexpr double kMaxSleep = 1e-3;
constexpr double kMaxSleepIfIdle = 5e-3;  // nothing can come but control messages
// While another thread polls: checks grow rarer. A thread that leaves work behind wakes this one,
// but others may wait for answers to what they send. With a check every millisecond the threads
// that stood by took a third of the time of short sums from those that polled, 4 of each to a core.
constexpr double kMinStandBy = 1e-3, kMaxStandBy = 8e-3;

// A waiting thread that polls.
constexpr double kSpin = 1e-3;   // if every rank has a core of its own
constexpr double kYield = 2e-3;  // then it sleeps
// With a waiter. Yielding first keeps the core awake and costs no other thread anything; a core
// that sleeps takes about 50 us to wake up on a virtual machine.
constexpr double kYieldBeforeWait = 2e-4;
constexpr double kMaxWait = 2e-3;  // control messages are polled in between

// A moment of a loop that waits for another core.
void SpinPause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void SleepFor(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

}  // namespace

void Pacing::Start(std::shared_ptr<Waiter> waiter, bool core_per_rank) {
  waiter_ = std::move(waiter);
  spin_ = core_per_rank ? kSpin : 0;
}

void Pacing::Wake() {
  {
    MutexLock lock(mutex_);
    woken_ = true;
    wake_.NotifyOne();
  }
  WakeSleeper();
}

void Pacing::WakeSleeper() {
  if (sleepers_.load(std::memory_order_seq_cst) > 0) waiter_->Wake();
}

void Pacing::Stop() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
    wake_.NotifyAll();
  }
  WakeSleeper();
}

bool Pacing::stopped() const {
  MutexLock lock(mutex_);
  return stop_;
}

void Pacing::Rest(bool waited_for, bool idle) {
  ++idle_polls_;
  const int yields = waited_for ? kYieldsIfWaitedFor : 0;
  if (idle_polls_ <= yields) {
    sched_yield();
    return;
  }
  const double longest = waited_for ? kMaxSleepIfWaitedFor : idle ? kMaxSleepIfIdle : kMaxSleep;
  double sleep = waited_for ? kMinSleep
                 : waiter_  ? waiter_->poll_interval()
                            : kMinSleepBesideCompute;
  for (int i = yields + 1; i < idle_polls_ && sleep < longest; ++i) sleep *= 1.5;
  sleep = std::min(sleep, longest);
  const bool use_waiter = waiter_ && idle_polls_ > yields + 1;
  if (use_waiter) {
    bool wait = false;
    {
      MutexLock lock(mutex_);
      wait = !stop_ && !woken_;
      if (wait) sleepers_.fetch_add(1, std::memory_order_seq_cst);
    }
    if (wait) {
      waiter_->Wait(kMaxSleepIfIdle);
      sleepers_.fetch_sub(1, std::memory_order_relaxed);
    }
  }
  MutexLock lock(mutex_);
  const auto end = After(sleep);
  while (!use_waiter && !stop_ && !woken_)
    if (!wake_.WaitUntil(mutex_, end)) break;
  woken_ = false;
}

void Pacing::StandBy(const std::atomic<bool>& other_thread_polls) {
  stand_by_ = std::clamp(2 * stand_by_, kMinStandBy, kMaxStandBy);
  const auto end = After(stand_by_);
  MutexLock lock(mutex_);
  while (!stop_ && other_thread_polls.load(std::memory_order_relaxed))
    if (!wake_.WaitUntil(mutex_, end)) break;
}

WaitingPace::WaitingPace(Pacing& pacing) : pacing_(pacing), progress_at_(Now()), sleep_(kMinSleep) {
  thread_local const int fine_sleeps = prctl(PR_SET_TIMERSLACK, 1000);  // nanoseconds
  (void)fine_sleeps;
}

void WaitingPace::OnProgress(double now) {
  progress_at_ = now;
  sleep_ = kMinSleep;
}

void WaitingPace::Rest(double now, double seconds, const std::atomic<bool>& has_tasks) {
  const double idle = now - progress_at_;
  if (pacing_.waiter_) {
    if (idle < kYieldBeforeWait) {
      sched_yield();
      return;
    }
    pacing_.sleepers_.fetch_add(1, std::memory_order_seq_cst);
    if (!has_tasks.load(std::memory_order_seq_cst))
      pacing_.waiter_->Wait(std::min(seconds, kMaxWait));
    pacing_.sleepers_.fetch_sub(1, std::memory_order_relaxed);
  } else if (idle < pacing_.spin_) {
    for (int i = 0; i < 10; ++i) SpinPause();
  } else if (idle < kYield) {
    sched_yield();
  } else {
    SleepFor(sleep_);
    sleep_ = std::min(sleep_ * 1.5, kMaxSleepIfWaitedFor);
  }
}

void Backoff::Reset() { sleep_ = 0; }

void Backoff::Sleep() {
  sleep_ = std::clamp(sleep_ * 1.5, kMinSleep, kMaxSleep);
  SleepFor(sleep_);
}

}  // namespace carafe
