// An engine and the vote reduction of one rank on its communication thread: the one thing between a
// strategy (exchange.h) and the engine. Starts transfers there, publishes what is complete, waits.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "carafe/base/index.h"
#include "carafe/comm/comm_thread.h"
#include "carafe/exchange/engine.h"
#include "carafe/exchange/votes.h"

namespace carafe {

// Any thread may call the public functions, but Vote, the waits for a verdict and Close follow the
// rules of Exchange. A call that waits throws CommError as Group's calls do.
class PolledEngine final : private Poller {
 public:
  // `timeout`: seconds after which rank 0's sums and votes go on without late ranks (see
  // Operation::skips_late); < 0: never. `vote_steps`: steps whose votes may be in progress at once.
  // `completed`, unless empty, is called by the thread that polls after transfers became complete;
  // it must not block. The thread and the memory of the transfers outlive this.
  PolledEngine(CommThread& thread, const ElementType& elements, std::vector<Transfer> transfers,
               double timeout = -1, int vote_steps = 1, std::function<void()> completed = {});
  ~PolledEngine() override;  // complete and closed, or the transport is given up

  // Engine::OnReady on the communication thread, which `next` may let sleep.
  void Start(int transfer, Progress next = Progress::kByThread) { Start(transfer, transfer, next); }
  void Start(int first, int second, Progress next);  // both, if they differ
  // Engine::Expect for all of `expected`, which outlives this, then OnReady.
  void Start(int transfer, std::span<const int> expected);
  void Listen(int transfer);  // Engine::Listen
  void Limit(double bytes_per_second);
  // Steps of this transfer that are complete; their memory may be used again.
  int64_t steps(int transfer) const { return At(steps_, transfer).load(std::memory_order_acquire); }
  int64_t completions() const { return completions_.load(std::memory_order_acquire); }  // of all

  // Waits until done() holds; done() asks steps(), completions() or verdicts(). `what` says what is
  // waited for, in messages. After kByCaller the caller waits again, or calls HandOverProgress.
  void Await(std::string_view what, const std::function<bool()>& done,
             Progress next = Progress::kByThread) {
    thread_.Await(what, done, this, next);
  }
  // Call before computing: leaves what is in progress to the communication thread.
  void HandOverProgress() { thread_.HandOverProgress(); }

  void Vote(const StepVotes& mine);
  int64_t verdicts() const { return verdicts_.load(std::memory_order_acquire); }
  // Whether the last verdict is good: no vote was bad. No rank votes again while this is asked.
  bool good() const { return good_.load(std::memory_order_relaxed); }
  // Of step 0, 1, ..: one of the last `vote_steps` that are complete.
  const StepVotes& verdict(int64_t step) const { return At(verdict_, step % Count(verdict_)); }
  const StepVotes& verdict() const { return verdict(verdicts() - 1); }  // the last one

  // Ends the group with this error: for threads of a strategy that nobody waits for.
  void Fail(std::exception_ptr error);

  // Collective: ends the exchange with all peers. Every transfer is complete.
  void Close();

  int64_t bytes_sent() const { return bytes_sent_.load(std::memory_order_relaxed); }
  int64_t bytes_received() const { return bytes_received_.load(std::memory_order_relaxed); }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::time_point kNever = Clock::time_point::max();

  bool Poll(Transport& transport) override;
  bool Idle() const override { return engine_.Idle() && votes_.Idle(); }
  bool Busy() const override { return engine_.Busy() || votes_.Busy(); }
  std::vector<int> WaitsFor() const override;
  void StartClock(size_t what);
  void CheckClock();

  CommThread& thread_;
  // On the communication thread, or on one that waits and polls.
  Engine engine_;
  VoteReduction votes_;
  bool limited_ = false;                      // see Limit
  const double timeout_;                      // seconds; < 0: none
  std::vector<Clock::time_point> deadlines_;  // of every transfer, then of the votes
  std::vector<StepVotes> verdict_;            // by step modulo its size; published by verdicts_
  const std::function<void()> completed_;

  std::vector<std::atomic<int64_t>> steps_;  // by transfer
  std::atomic<int64_t> completions_{0};
  std::atomic<int64_t> verdicts_{0};
  std::atomic<bool> good_{false};
  std::atomic<bool> closed_{false};
  std::atomic<int64_t> bytes_sent_{0}, bytes_received_{0};
};

}  // namespace carafe
