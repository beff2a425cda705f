#include "carafe/exchange/polled_engine.h"

#include <string>
#include <utility>

#include "carafe/comm/clock.h"
#include "carafe/comm/tags.h"

namespace carafe {

PolledEngine::PolledEngine(CommThread& thread, const ElementType& elements,
                           std::vector<Transfer> transfers, double timeout, int vote_steps,
                           std::function<void()> completed)
    : thread_(thread),
      engine_(thread.rank(), thread.size(), elements, transfers,
              {kExchangeTag, kExchangePayloadTag}),
      votes_(thread.rank(), thread.size(), timeout >= 0, vote_steps),
      timeout_(thread.rank() == 0 ? timeout : -1),
      deadlines_(transfers.size() + 1, kNever),
      verdict_(static_cast<size_t>(vote_steps)),
      completed_(std::move(completed)),
      steps_(transfers.size()) {
  thread_.Attach(this);
}

PolledEngine::~PolledEngine() { thread_.Detach(this); }

void PolledEngine::Start(int first, int second, Progress next) {
  thread_.Post(
      [this, first, second] {
        engine_.OnReady(first);
        StartClock(static_cast<size_t>(first));
        if (second != first) engine_.OnReady(second);
      },
      next);
}

void PolledEngine::Start(int transfer, std::span<const int> expected) {
  thread_.Post([this, transfer, expected] {
    for (const int other : expected) engine_.Expect(other);
    engine_.OnReady(transfer);
  });
}

void PolledEngine::Listen(int transfer) {
  thread_.Post([this, transfer] { engine_.Listen(transfer); });
}

void PolledEngine::Limit(double bytes_per_second) {
  thread_.Post([this, bytes_per_second] {
    engine_.Limit(bytes_per_second);
    limited_ = true;
  });
}

void PolledEngine::Vote(const StepVotes& mine) {
  thread_.Post([this, mine] {
    votes_.OnVotes(mine);
    StartClock(deadlines_.size() - 1);
  });
}

void PolledEngine::Fail(std::exception_ptr error) {
  thread_.Post([error] { std::rethrow_exception(error); });
}

bool PolledEngine::Poll(Transport& transport) {
  if (timeout_ >= 0) CheckClock();
  bool moved = votes_.Poll(transport);
  for (StepVotes verdict; votes_.TakeComplete(&verdict);) {
    At(verdict_, verdicts() % Count(verdict_)) = verdict;
    good_.store(verdict.bad == 0, std::memory_order_relaxed);
    verdicts_.fetch_add(1, std::memory_order_release);
  }
  moved |= engine_.Poll(transport, limited_ ? Now() : 0);
  const std::vector<int> complete = engine_.TakeComplete();
  for (int transfer : complete) {
    At(steps_, transfer).fetch_add(1, std::memory_order_release);
    completions_.fetch_add(1, std::memory_order_release);
  }
  if (!complete.empty() && completed_) completed_();
  bytes_sent_.store(engine_.bytes_sent(), std::memory_order_relaxed);
  bytes_received_.store(engine_.bytes_received(), std::memory_order_relaxed);
  closed_.store(Idle(), std::memory_order_release);
  return moved;
}

std::vector<int> PolledEngine::WaitsFor() const {
  std::vector<int> ranks = engine_.WaitsFor();
  return ranks.empty() ? votes_.WaitsFor() : ranks;
}

void PolledEngine::StartClock(size_t what) {
  if (timeout_ >= 0)
    deadlines_[what] = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                          std::chrono::duration<double>(timeout_));
}

void PolledEngine::CheckClock() {
  const Clock::time_point now = Clock::now();
  for (size_t i = 0; i < deadlines_.size(); ++i) {
    if (now < deadlines_[i]) continue;
    deadlines_[i] = kNever;
    if (i + 1 < deadlines_.size()) {
      engine_.OnTimeout(static_cast<int>(i));
    } else {
      votes_.OnTimeout();
    }
  }
}

void PolledEngine::Close() {
  thread_.Post([this] {
    engine_.Close();
    votes_.Close();
  });
  Await("the end of the exchange", [this] { return closed_.load(std::memory_order_acquire); });
}

}  // namespace carafe
