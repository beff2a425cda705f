#include "carafe/comm/pacing.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

namespace carafe {
namespace {

// Waits for Wake(), however long the time is that it gets.
class EndlessWaiter final : public Waiter {
 public:
  void Wait(double) override {
    std::unique_lock lock(mutex_);
    ++waits;
    entered_.notify_all();
    woken_.wait(lock, [this] { return wakes_ > 0; });
    --wakes_;
  }
  void Wake() override {
    std::lock_guard lock(mutex_);
    ++wakes_;
    woken_.notify_one();
  }
  double poll_interval() const override { return 1e-5; }
  // Until a thread has entered Wait n times.
  void AwaitEntered(int n) {
    std::unique_lock lock(mutex_);
    entered_.wait(lock, [&] { return waits >= n; });
  }

  int waits = 0;

 private:
  std::mutex mutex_;
  std::condition_variable entered_, woken_;
  int wakes_ = 0;
};

TEST(Pacing, WakesTheThreadThatSleepsInTheWaiter) {
  const auto waiter = std::make_shared<EndlessWaiter>();
  Pacing pacing;
  pacing.Start(waiter, false);
  std::thread thread([&] {
    while (!pacing.stopped()) pacing.Rest(false, true);
  });
  waiter->AwaitEntered(1);
  pacing.Wake();
  waiter->AwaitEntered(2);
  pacing.Stop();
  thread.join();  // which Stop has woken
}

TEST(Pacing, DoesNotSleepAfterAWakeThatCameBefore) {
  const auto waiter = std::make_shared<EndlessWaiter>();
  Pacing pacing;
  pacing.Start(waiter, false);
  pacing.Rest(false, true);  // the first one does not use the waiter
  pacing.Wake();
  pacing.Rest(false, true);
  EXPECT_EQ(waiter->waits, 0);
}

TEST(Pacing, AWaitingThreadDoesNotSleepIfThereAreTasks) {
  const auto waiter = std::make_shared<EndlessWaiter>();
  Pacing pacing;
  pacing.Start(waiter, false);
  const std::atomic<bool> has_tasks{true};
  WaitingPace pace(pacing);
  pace.OnProgress(0);
  pace.Rest(100, 100, has_tasks);
  EXPECT_EQ(waiter->waits, 0);
}

TEST(Pacing, StandsByOnlyWhileAnotherThreadPolls) {
  Pacing pacing;
  pacing.Start(nullptr, false);
  std::atomic<bool> polls{false};
  pacing.StandBy(polls);  // returns at once
  polls = true;
  std::thread other([&] {
    polls = false;
    pacing.Wake();
  });
  while (polls) pacing.StandBy(polls);
  other.join();
}

}  // namespace
}  // namespace carafe
