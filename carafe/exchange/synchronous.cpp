#include "carafe/exchange/synchronous.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <utility>

#include "carafe/base/error.h"
#include "carafe/base/timer.h"
#include "carafe/exchange/carrier.h"
#include "carafe/exchange/plan.h"
#include "carafe/exchange/step_guard.h"

namespace carafe {
namespace {

template <typename T>
std::vector<BucketPlace<T>> Places(const Plan& plan, std::span<const ParamInfo<T>> params) {
  std::vector<BucketPlace<T>> places;
  for (const Bucket& bucket : plan.buckets) {
    const ParamInfo<T>& first = params[static_cast<size_t>(bucket.params.front())];
    places.push_back({.gradient = first.gradient,
                      .value = first.value,
                      .count = bucket.count,
                      .priority = *std::min_element(bucket.params.begin(), bucket.params.end()),
                      .other_gradients = first.other_gradients});
  }
  return places;
}

template <typename T>
std::vector<std::string> Names(const Plan& plan, std::span<const ParamInfo<T>> params) {
  std::vector<std::string> names;
  for (const Bucket& bucket : plan.buckets) {
    std::string name = params[static_cast<size_t>(bucket.params.front())].name;
    if (bucket.params.size() > 1)
      name += " .. " + params[static_cast<size_t>(bucket.params.back())].name;
    names.push_back(std::move(name));
  }
  return names;
}

template <typename T>
class Synchronous final : public Exchange<T> {
 public:
  Synchronous(const SchemeKind& kind, const ExchangeSetup<T>& setup)
      : plan_(MakePlan<T>(setup.params, setup.bucket_bytes, setup.bucket_sizes)),
        update_(setup.update),
        received_(setup.received),
        update_needs_all_(setup.update_needs_all),
        overlap_(setup.overlap),
        several_ranks_(setup.group.size() > 1),
        serves_others_(several_ranks_ && kind.root_updates && setup.group.rank() == 0),
        guard_(plan_, setup.workers),
        ready_times_(setup.params.size()) {
    // First, so that what only some ranks were given is named as that.
    if (several_ranks_)
      ComparePlans(setup.group, SchemeText(setup.group, kind, setup.scheme, setup.workers), plan_);
    if (setup.scheme.timeout >= 0 && !kind.may_leave_out)
      throw ConfigError(
          fmt::format("--exchange_timeout is for --exchange=server, not for {}", kind.name),
          "leave it out, or take the server");
    for (size_t b = plan_.buckets.size(); b-- > 0;) urgent_first_.push_back(static_cast<int>(b));
    std::vector<BucketPlace<T>> places = Places<T>(plan_, setup.params);
    if (!several_ranks_) {
      carrier_ = MakeLocalCarrier<T>(std::move(places));
      return;
    }
    carrier_ = MakeRankCarrier<T>(kind, setup.scheme, *setup.group.thread(), std::move(places),
                                  Names<T>(plan_, setup.params));
  }

  // Unless the step was broken off: the messages still write to the gradients and values.
  ~Synchronous() override {
    try {
      if (std::uncaught_exceptions() > 0 || !guard_.between_steps()) return;
      Cancel();
      carrier_->Close(guard_.steps());
    } catch (const std::exception&) {
      // The group has failed, and whoever waits next is told so.
    }
  }

  void AwaitValue(int worker, int param, Stream& stream) override {
    {
      std::lock_guard lock(mutex_);
      guard_.CheckReadable(worker, param);
    }
    const Timer timer;
    updating_ = 0;
    if (serves_others_) UpdateWhatIsHere(stream, guard_.steps());
    Bring(plan_.bucket_of[static_cast<size_t>(param)], stream, true);
    if (worker == 0) wait_seconds_ += timer.Seconds() - updating_;
  }

  void GradientReady(int worker, int param, Stream& stream) override {
    if (!stream.on_cpu() && several_ranks_)
      throw ConfigError("gradients are exchanged in the memory of the CPU only",
                        "train on the CPU, or on one GPU");
    bool complete = false;
    bool last = false;
    {
      std::lock_guard lock(mutex_);
      complete = guard_.Announce(worker, param);
      last = guard_.all_announced();
    }
    if (worker == 0) NoteReady(param);
    if (!overlap_) return;
    // The verdict that is here already is not waited for.
    if (complete)
      carrier_->Start(plan_.bucket_of[static_cast<size_t>(param)],
                      last && !carrier_->VerdictIsGood(guard_.steps() + 1));
    if (serves_others_ && worker == 0) UpdateWhileOthersCompute(stream);
  }

  void Vote(const StepVotes& mine) override {
    {
      std::lock_guard lock(mutex_);
      guard_.Vote();
    }
    carrier_->Vote(mine);
  }

  void FinishStep() override {
    {
      std::lock_guard lock(mutex_);
      guard_.Finish();
    }
    if (!overlap_)
      for (size_t b = 0; b < plan_.buckets.size(); ++b) carrier_->Start(static_cast<int>(b), true);
  }

  StepVotes AwaitVerdict() override {
    int64_t step = 0;
    {
      std::lock_guard lock(mutex_);
      guard_.Judge();
      step = guard_.steps();
    }
    const Timer timer;
    const StepVotes verdict = carrier_->AwaitVerdict(step);
    wait_seconds_ += timer.Seconds();
    return verdict;
  }

  void Cancel() override {
    Stream stream;  // for nothing: there are no updates
    Finish(stream, false);
  }

  void Drain(int worker, Stream& stream) override {
    const Timer timer;
    updating_ = 0;
    Finish(stream, true);
    if (worker == 0) wait_seconds_ += timer.Seconds() - updating_;
  }

  std::vector<double> ready_times() const override { return ready_times_; }

  ExchangeStats stats() const override {
    return {.wait_seconds = wait_seconds_,
            .bytes_sent = carrier_->bytes_sent(),
            .bytes_received = carrier_->bytes_received(),
            .steps = guard_.steps()};
  }

 private:
  using Update = StepGuard::Update;

  // Of worker 0's thread.
  void NoteReady(int param) {
    if (ready_step_ != guard_.steps()) {
      ready_step_ = guard_.steps();
      since_first_ = Timer();
    }
    ready_times_[static_cast<size_t>(param)] = since_first_.Seconds();
  }

  void Finish(Stream& stream, bool with_update) {
    for (int bucket : urgent_first_) Bring(bucket, stream, with_update);
  }

  // Updates every bucket whose sum has come, the most urgent first: rank 0's values are awaited by
  // others, not only by who asks here.
  void UpdateWhatIsHere(Stream& stream, int64_t step) {
    const auto is_here = [&](int bucket) { return carrier_->SumIsHere(bucket, step); };
    if (update_needs_all_ && !std::all_of(urgent_first_.begin(), urgent_first_.end(), is_here))
      return;
    while (UpdateOne(stream)) continue;
  }

  // In the backward pass of worker 0 on rank 0, which others wait for. With clipping the norm is
  // not known before its end.
  void UpdateWhileOthersCompute(Stream& stream) {
    const int64_t here = carrier_->sums_here();
    if (update_needs_all_ || here == looked_at_) return;
    if (!carrier_->VerdictIsGood(guard_.steps() + 1)) return;
    looked_at_ = here;
    while (UpdateOne(stream)) continue;
  }

  // Updates the most urgent bucket that waits for nothing but its update, unless there is none.
  bool UpdateOne(Stream& stream) {
    for (int bucket : urgent_first_) {
      {
        std::lock_guard lock(mutex_);
        if (!guard_.pending(bucket) || !carrier_->SumIsHere(bucket, guard_.step_of(bucket)))
          continue;
      }
      Bring(bucket, stream, true);
      return true;
    }
    return false;
  }

  // After this the bucket has its new values. One worker brings it, the others wait for that one.
  void Bring(int bucket, Stream& stream, bool with_update) {
    int64_t step = 0;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return failed_ || guard_.update(bucket) != Update::kRunning; });
      if (failed_) std::rethrow_exception(failed_);
      if (guard_.update(bucket) == Update::kNone) return;
      guard_.Claim(bucket);
      step = guard_.step_of(bucket);
    }
    std::exception_ptr error;
    try {
      BringClaimed(bucket, step, stream, with_update);
    } catch (...) {
      error = std::current_exception();
    }
    std::lock_guard lock(mutex_);
    if (error) failed_ = error;
    guard_.Updated(bucket);
    changed_.notify_all();
    if (error) std::rethrow_exception(error);
  }

  void BringClaimed(int bucket, int64_t step, Stream& stream, bool with_update) {
    const std::vector<int>& params = plan_.buckets[static_cast<size_t>(bucket)].params;
    if (!carrier_->updates()) {
      carrier_->AwaitValues(bucket, step);
      if (received_ && with_update)
        for (int param : params) received_(param, stream);
      return;
    }
    if (update_needs_all_ && several_ranks_) {
      for (size_t b = 0; b < plan_.buckets.size(); ++b)
        carrier_->AwaitSum(static_cast<int>(b), step);
    } else if (update_needs_all_) {
      SumAllOnce(step);
    } else if (with_update && several_ranks_) {
      AwaitSumAndUpdate(bucket, step, stream);
    } else {
      carrier_->AwaitSum(bucket, step);
    }
    const Timer timer;
    if (with_update)
      for (int param : params) update_(param, stream);
    updating_ += timer.Seconds();
    carrier_->Updated(bucket);
  }

  // Waits for this sum, and uses the time for the updates of others that have come.
  void AwaitSumAndUpdate(int bucket, int64_t step, Stream& stream) {
    while (!carrier_->SumIsHere(bucket, step)) {
      const int64_t seen = carrier_->sums_here();
      if (!UpdateOne(stream)) carrier_->AwaitSum(bucket, step, seen);
    }
    carrier_->NoWaitFollows();
  }

  // On one rank sums are made when they are asked for, and each once only.
  void SumAllOnce(int64_t step) {
    std::lock_guard lock(sum_mutex_);
    if (summed_ == step) return;
    for (size_t b = 0; b < plan_.buckets.size(); ++b) carrier_->AwaitSum(static_cast<int>(b), step);
    summed_ = step;
  }

  const Plan plan_;
  const std::function<void(int, Stream&)> update_;
  const std::function<void(int, Stream&)> received_;
  const bool update_needs_all_;
  const bool overlap_;
  const bool several_ranks_;
  const bool serves_others_;
  std::vector<int> urgent_first_;  // buckets: the backward pass ends with what Forward needs first
  std::mutex mutex_;               // guards the next three while workers run
  std::condition_variable changed_;
  StepGuard guard_;
  std::exception_ptr failed_;
  std::mutex sum_mutex_;     // guards summed_
  int64_t summed_ = 0;       // step
  double wait_seconds_ = 0;  // of worker 0's thread, as the next three
  std::vector<double> ready_times_;
  int64_t ready_step_ = -1;
  Timer since_first_;
  int64_t looked_at_ = 0;                // sums that had come when the last update was looked for
  static thread_local double updating_;  // seconds that the call under way spent in updates
  std::unique_ptr<Carrier> carrier_;
};

template <typename T>
thread_local double Synchronous<T>::updating_ = 0;

}  // namespace

template <typename T>
std::unique_ptr<Exchange<T>> MakeSynchronous(const SchemeKind& kind,
                                             const ExchangeSetup<T>& setup) {
  return std::make_unique<Synchronous<T>>(kind, setup);
}

template std::unique_ptr<Exchange<float>> MakeSynchronous(const SchemeKind&,
                                                          const ExchangeSetup<float>&);
template std::unique_ptr<Exchange<double>> MakeSynchronous(const SchemeKind&,
                                                           const ExchangeSetup<double>&);

}  // namespace carafe
