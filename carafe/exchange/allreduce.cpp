// The exchange "allreduce": synchronous. Sums travel while Backward and the next Forward run; every
// rank then makes the same update of the same sum, so replicas stay bit-equal.
#include <atomic>
#include <exception>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "carafe/base/timer.h"
#include "carafe/comm/comm_thread.h"
#include "carafe/exchange/engine.h"
#include "carafe/exchange/exchange.h"
#include "carafe/exchange/plan.h"
#include "carafe/exchange/step_guard.h"
#include "carafe/exchange/votes.h"

namespace carafe {
namespace {

// The part that lives on the communication thread: polled there, and asked nothing but the atomics
// from outside.
template <typename T>
class AllreducePoller final : public Poller {
 public:
  AllreducePoller(int rank, int size, std::vector<std::span<T>> buckets)
      : sums_done_(buckets.size()), engine_(rank, size, std::move(buckets)), ballot_(rank, size) {}

  // On the communication thread.
  void OnReady(int bucket) { engine_.OnReady(bucket); }
  void OnVotes(int64_t step, const StepVotes& mine) { ballot_.OnVotes(step, mine); }
  bool Poll(Transport& transport) override {
    bool moved = engine_.Poll(transport);
    for (int b : engine_.TakeComplete()) sums_done_[b].fetch_add(1, std::memory_order_release);
    bytes_sent_.store(engine_.bytes_sent(), std::memory_order_relaxed);
    moved |= ballot_.Poll(transport);
    if (ballot_.TakeComplete(&verdict_)) verdicts_.fetch_add(1, std::memory_order_release);
    return moved;
  }
  bool Idle() const override { return engine_.Idle() && ballot_.Idle(); }
  std::vector<int> Awaited() const override {
    std::vector<int> ranks = engine_.Awaited();
    return ranks.empty() ? ballot_.Awaited() : ranks;
  }

  // From any thread.
  int64_t sums_done(int bucket) const { return sums_done_[bucket].load(std::memory_order_acquire); }
  int64_t verdicts() const { return verdicts_.load(std::memory_order_acquire); }
  int64_t bytes_sent() const { return bytes_sent_.load(std::memory_order_relaxed); }
  const StepVotes& verdict() const { return verdict_; }  // after verdicts() has grown

 private:
  std::vector<std::atomic<int64_t>> sums_done_;  // steps, by bucket
  std::atomic<int64_t> verdicts_{0};             // steps
  std::atomic<int64_t> bytes_sent_{0};
  StepVotes verdict_;
  Engine<T> engine_;
  Ballot ballot_;
};

template <typename T>
std::vector<std::span<T>> Places(const Plan& plan, std::span<const ParamInfo<T>> params) {
  std::vector<std::span<T>> places;
  for (const Bucket& bucket : plan.buckets)
    places.emplace_back(params[bucket.params.front()].gradient, static_cast<size_t>(bucket.count));
  return places;
}

template <typename T>
class Allreduce final : public Exchange<T> {
 public:
  explicit Allreduce(const ExchangeSetup<T>& setup)
      : thread_(*setup.group.thread()),
        plan_(MakePlan<T>(setup.params, setup.bucket_bytes)),
        update_(setup.update),
        update_needs_all_(setup.update_needs_all),
        overlap_(setup.overlap),
        guard_(setup.params.size()),
        poller_(setup.group.rank(), setup.group.size(), Places<T>(plan_, setup.params)) {
    for (const ParamInfo<T>& param : setup.params) names_.push_back(param.name);
    for (const Bucket& bucket : plan_.buckets) missing_.push_back(bucket.params.size());
    ComparePlans(setup.group, plan_);
    thread_.Attach(&poller_);
  }
  ~Allreduce() override {
    try {
      if (std::uncaught_exceptions() == 0) AwaitAll();  // the sums still write to the gradients
    } catch (const std::exception&) {
      // The group has failed, and whoever waits next is told so.
    }
    thread_.Detach(&poller_);
  }

  void AwaitValue(int worker, int param, Stream&) override {
    Ensure(worker == 0, "allreduce has one worker per rank");
    Update(param);
  }

  void GradientReady(int worker, int param, Stream& stream) override {
    Ensure(worker == 0, "allreduce has one worker per rank");
    if (!stream.on_cpu())
      throw ConfigError("the exchange allreduce sums gradients in the memory of the CPU only",
                        "train on the CPU, or on one GPU");
    guard_.Announce(param);
    const int bucket = plan_.bucket_of[param];
    if (--missing_[bucket] == 0 && overlap_) Start(bucket);
  }

  void FinishStep(const StepVotes& mine) override {
    guard_.Finish();
    if (!overlap_)
      for (size_t b = 0; b < plan_.buckets.size(); ++b) Start(static_cast<int>(b));
    for (size_t b = 0; b < plan_.buckets.size(); ++b) missing_[b] = plan_.buckets[b].params.size();
    thread_.Post([this, mine, step = guard_.steps()] { poller_.OnVotes(step, mine); });
  }

  StepVotes AwaitVerdict() override {
    guard_.Judge();
    const int64_t step = guard_.steps();
    Await(fmt::format("the votes of step {}", step), [&] { return poller_.verdicts() >= step; });
    return poller_.verdict();
  }

  void Cancel() override {
    AwaitAll();
    guard_.Forget();
  }

  void Drain() override {
    for (const Bucket& bucket : plan_.buckets)
      for (int param : bucket.params) Update(param);
  }

  ExchangeStats stats() const override {
    return {wait_seconds_, poller_.bytes_sent(), guard_.steps()};
  }

 private:
  void Start(int bucket) {
    thread_.Post([this, bucket] { poller_.OnReady(bucket); });
  }

  void Update(int param) {
    if (!guard_.Pending(param)) return;
    if (update_needs_all_) {
      AwaitAll();
    } else {
      AwaitSum(plan_.bucket_of[param]);
    }
    update_(param);
    guard_.Updated(param);
  }

  void AwaitAll() {
    for (size_t b = 0; b < plan_.buckets.size(); ++b) AwaitSum(static_cast<int>(b));
  }

  void AwaitSum(int bucket) {
    const int64_t step = guard_.steps();
    if (poller_.sums_done(bucket) >= step) return;
    const std::vector<int>& params = plan_.buckets[bucket].params;
    std::string of = names_[params.front()];
    if (params.size() > 1) of += " .. " + names_[params.back()];
    Await(fmt::format("the sum of the gradients of {} in step {}", of, step),
          [&] { return poller_.sums_done(bucket) >= step; });
  }

  void Await(const std::string& what, const std::function<bool()>& done) {
    const Timer timer;
    thread_.Await(what, done, &poller_);
    wait_seconds_ += timer.Seconds();
  }

  CommThread& thread_;
  const Plan plan_;
  const std::function<void(int)> update_;
  const bool update_needs_all_;
  const bool overlap_;
  StepGuard guard_;
  std::vector<std::string> names_;
  std::vector<size_t> missing_;  // gradients of each bucket that this step has yet to announce
  double wait_seconds_ = 0;
  AllreducePoller<T> poller_;
};

const RegisterExchange<Allreduce> kRegistered{
    {.name = "allreduce",
     .summary = "Synchronous sum on all ranks; hidden behind Backward and the next Forward."}};

}  // namespace
}  // namespace carafe
