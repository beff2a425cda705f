// What other threads ask of the communication thread: tasks, waits in which they may poll
// themselves, and failures.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/base/log.h"
#include "carafe/comm/clock.h"
#include "carafe/comm/comm_thread.h"

namespace carafe {
namespace {

constexpr double kWaitSlice = 0.1;  // seconds between checks of the timeouts in a wait

}  // namespace

void CommThread::Post(std::function<void()> task, Progress next) {
  MutexLock lock(mutex_);
  tasks_.push_back(std::move(task));
  has_tasks_.store(true, std::memory_order_seq_cst);
  if (polled_by_waiter_.load(std::memory_order_relaxed)) {
    pacing_.WakeSleeper();
  } else if (next == Progress::kByThread) {
    pacing_.Wake();
  }
}

// Runs the task on the thread that polls, even if the group has failed, and waits for it.
void CommThread::RunAndWait(const std::function<void()>& task) noexcept {
  bool done = false;
  Post([&] {
    try {
      task();
    } catch (const std::exception& error) {
      LogWarning("on the communication thread: {}", error.what());
    }
    MutexLock lock(mutex_);
    done = true;
    progress_.NotifyAll();
  });
  MutexLock lock(mutex_);
  while (!done) progress_.Wait(mutex_);
}

void CommThread::Attach(Poller* poller) {
  Post([this, poller] {
    poll_mutex_.AssertHeld();
    pollers_.push_back(poller);
  });
}

void CommThread::Detach(Poller* poller) noexcept {
  RunAndWait([&] {
    poll_mutex_.AssertHeld();
    std::erase(pollers_, poller);
    if (poller->Idle() || failures_->transport_lost()) return;
    failures_->Fail("ended in the middle of an exchange");
    failures_->OnTransportLost();
    transport_.reset();
  });
}

void CommThread::Retire(std::shared_ptr<Poller> poller) noexcept {
  RunAndWait([&] {
    poll_mutex_.AssertHeld();
    std::erase(pollers_, poller.get());
    if (!poller->Idle()) retired_.push_back(std::move(poller));
  });
}

// Returns whether `ready` became true.
bool CommThread::WaitOrPoll(double seconds, const std::function<bool()>& ready,
                            std::string_view what, Poller* poller) {
  if (any_thread_ && !polled_by_waiter_.exchange(true, std::memory_order_acq_rel)) {
    {
      MutexLock lock(mutex_);
      polling_for_ = what;
      polling_poller_ = poller;
    }
    const bool is_ready = PollUntil(seconds, ready);
    MutexLock lock(mutex_);
    polling_poller_ = nullptr;
    polled_by_waiter_.store(false, std::memory_order_release);
    // Another waiting thread may poll now.
    if (listening_.load(std::memory_order_relaxed) > 0) progress_.NotifyAll();
    return is_ready;
  }
  listening_.fetch_add(1, std::memory_order_seq_cst);
  if (!any_thread_) pacing_.Wake();
  {
    const auto end = After(seconds);
    MutexLock lock(mutex_);
    while (!ready() && !(any_thread_ && !polled_by_waiter_.load(std::memory_order_relaxed)))
      if (!progress_.WaitUntil(mutex_, end)) break;
  }
  listening_.fetch_sub(1, std::memory_order_relaxed);
  return ready();
}

// Does the work of the communication thread, which finishes its poll and then stands by.
bool CommThread::PollUntil(double seconds, const std::function<bool()>& ready) {
  MutexLock polling(poll_mutex_);
  WaitingPace pace(pacing_);
  const double end = Now() + seconds;
  while (!ready()) {
    const bool moved = PollOnce();
    const double now = Now();
    if (moved) {
      pace.OnProgress(now);
      continue;
    }
    if (now >= end) return ready();
    pace.Rest(now, end - now, has_tasks_);
  }
  return true;
}

void CommThread::Await(std::string_view what, const std::function<bool()>& done, Poller* poller,
                       Progress next) {
  Check(what);
  if (done()) {
    if (next == Progress::kByThread) return HandOverProgress();
    left_to_caller_.store(true, std::memory_order_relaxed);
    return;
  }
  double waited = 0;
  double waited_after_sigterm = 0;
  bool warned = false;
  const auto ready = [&] { return failures_->failed() || done(); };
  ++waiting_;
  while (true) {
    const double before = Now();
    if (WaitOrPoll(kWaitSlice, ready, what, poller)) break;
    // Time in which this process was stopped counts as a second at most, and time in which a peer
    // has announced long work does not count.
    const double step = std::min(Now() - before, 1.0);
    if (!failures_->others_busy()) waited += step;
    if (failures_->asked_to_end()) waited_after_sigterm += step;
    const int left = failures_->left_long_ago();
    const bool late = waited >= timeouts_.wait || left >= 0;
    // A launcher that ends the ranks because one has died leaves them a second: log it now.
    const bool ends_soon = waited_after_sigterm >= timeouts_.last_words;
    if (!late && (warned || (waited < timeouts_.warning && !ends_soon))) continue;
    if (late) {
      FailWait(what, waited, left, poller);
    } else if (ends_soon) {
      LogWaitBeforeEnd(what, poller);
    } else {
      LogWarning("rank {} has waited {:.1f} s for {}: {}", rank_, waited, NamesWaitedFor(poller),
                 what);
    }
    warned = true;
  }
  --waiting_;
  left_to_caller_.store(next == Progress::kByCaller, std::memory_order_relaxed);
  if (next == Progress::kByThread) ResumeProgress();
  Check(what);
}

void CommThread::HandOverProgress() {
  if (left_to_caller_.exchange(false, std::memory_order_relaxed)) ResumeProgress();
}

// Wakes the communication thread if something is in progress and no other thread polls.
void CommThread::ResumeProgress() {
  if (!any_thread_) return;
  bool busy = has_tasks_.load(std::memory_order_relaxed);
  if (poll_mutex_.TryLock()) {
    for (const Poller* poller : pollers_) busy |= poller->Busy();
    poll_mutex_.Unlock();
  }
  if (busy && !polled_by_waiter_.load(std::memory_order_relaxed)) pacing_.Wake();
}

void CommThread::LogWaitBeforeEnd(std::string_view what, Poller* poller) {
  if (!poller) return;
  const auto promise = std::make_shared<std::promise<std::vector<int>>>();
  std::future<std::vector<int>> answer = promise->get_future();
  Post([this, promise, poller] { promise->set_value(failures_->EndOfWaits(poller->WaitsFor())); });
  // Open MPI blocks the communication thread inside of MPI when a peer is gone: then nothing
  // changes the poller, and this thread can ask it.
  const bool stuck = answer.wait_for(std::chrono::milliseconds(200)) != std::future_status::ready;
  failures_->LogWaitBeforeEnd(what, stuck ? poller->WaitsFor() : answer.get());
}

// Fails the group, so that the wait ends.
void CommThread::FailWait(std::string_view what, double waited, int left, Poller* poller) {
  std::string text;
  if (left >= 0) {
    text = fmt::format("{} has finished, but this rank still waits for it: {}",
                       failures_->Names({left}), what);
  } else {
    text = fmt::format(
        "waited {:.1f} s for {}: {}\n  fix: look at what that rank does; raise "
        "--comm_timeout if it is only slow",
        waited, NamesWaitedFor(poller), what);
  }
  RunAndWait([&] { failures_->Fail(text); });
}

std::string CommThread::NamesWaitedFor(Poller* poller) {
  std::string names = "the others";
  if (poller)
    RunAndWait([&] { names = failures_->Names(failures_->EndOfWaits(poller->WaitsFor())); });
  return names;
}

void CommThread::Check(std::string_view what) {
  if (failures_->failed()) ThrowFailure(what);
}

void CommThread::ThrowFailure(std::string_view what) {
  bool first = false;
  {
    MutexLock lock(mutex_);
    first = !std::exchange(acknowledged_, true);
  }
  if (first) Post([this] { failures_->Acknowledge(); });
  const GroupFailure failure = *failures_->failure();
  const std::string who = RankOn(failure.rank, At(hosts_, failure.rank));
  if (failure.dead)
    throw CommError(
        fmt::format("{} is lost: {}; this rank was waiting for: {}", who, failure.text, what),
        "look at the output and the system log of that host; then "
        "resume from the last snapshot");
  throw CommError(fmt::format("{}: {}", who, failure.text), "");
}

bool CommThread::Fail(const std::string& text) noexcept {
  {
    MutexLock lock(mutex_);
    acknowledged_ = true;
  }
  bool reports = true;
  RunAndWait([&] { reports = failures_->FailAndChooseReporter(text); });
  return reports;
}

void CommThread::Reported() noexcept {
  RunAndWait([&] { failures_->Reported(); });
}

void CommThread::AnnounceWork(const std::string& work) {
  Post([this, work] { failures_->AnnounceWork(work); });
}

bool CommThread::AllAcknowledged() noexcept {
  bool all = false;
  RunAndWait([&] { all = failures_->AllAcknowledged(); });
  return all;
}

void CommThread::WatchMessages(MessageTrace* trace, MessageCounters* counters) {
  RunAndWait([&] {
    poll_mutex_.AssertHeld();
    if (transport_) traced_ = carafe::WatchMessages(*transport_, trace, counters);
  });
}

void CommThread::StopWatching() noexcept {
  RunAndWait([&] {
    poll_mutex_.AssertHeld();
    traced_.reset();
  });
}

void CommThread::Abort(const std::string& message) noexcept {
  RunAndWait([&] {
    poll_mutex_.AssertHeld();
    if (transport_) transport_->Abort(message);
  });
}

}  // namespace carafe
