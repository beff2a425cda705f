#include "carafe/exchange/synchronous.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/base/timer.h"
#include "carafe/exchange/encoded_here.h"
#include "carafe/exchange/factor_gather.h"
#include "carafe/exchange/plan.h"
#include "carafe/exchange/polled_engine.h"
#include "carafe/exchange/step_guard.h"

namespace carafe {
namespace {

template <typename T>
std::vector<BucketMemory> MemoryOf(const Plan& plan, std::span<const ParamInfo<T>> params) {
  std::vector<BucketMemory> buckets;
  for (const Bucket& bucket : plan.buckets) {
    const ParamInfo<T>& first = At(params, bucket.params.front());
    buckets.push_back(
        {.gradient = first.gradient,
         .value = first.value,
         .count = bucket.count,
         .priority = *std::min_element(bucket.params.begin(), bucket.params.end()),
         .other_gradients = {first.other_gradients.begin(), first.other_gradients.end()},
         .codec = first.codec});
  }
  return buckets;
}

template <typename T>
std::vector<std::string> Names(const Plan& plan, std::span<const ParamInfo<T>> params) {
  std::vector<std::string> names;
  for (const Bucket& bucket : plan.buckets) {
    std::string name = At(params, bucket.params.front()).name;
    if (bucket.params.size() > 1) name += " .. " + At(params, bucket.params.back()).name;
    names.push_back(std::move(name));
  }
  return names;
}

// The parameters, without the factors that are not taken: one rank has nobody to send them to.
template <typename T>
std::vector<ParamInfo<T>> WithFactorsTaken(const Scheme& scheme, const ExchangeSetup<T>& setup) {
  std::vector<ParamInfo<T>> params(setup.params.begin(), setup.params.end());
  const bool takes = scheme.takes_factors && setup.group.size() > 1;
  for (ParamInfo<T>& param : params)
    if (!takes) param.factors = {};
  return params;
}

// Threads: see Exchange. A bucket is updated by one worker at a time, the others wait for it.
template <typename T>
class Synchronous final : public Exchange<T> {
 public:
  Synchronous(const Scheme& scheme, const ExchangeSetup<T>& setup)
      : params_(WithFactorsTaken(scheme, setup)),
        plan_(MakePlan<T>(params_, setup.bucket_bytes, setup.bucket_sizes)),
        names_(Names<T>(plan_, params_)),
        buckets_(MemoryOf<T>(plan_, params_)),
        update_(setup.update),
        received_(setup.received),
        update_needs_all_(setup.update_needs_all),
        overlap_(setup.overlap),
        rank_(setup.group.rank()),
        updates_(scheme.UpdatesOn(setup.group.rank())),
        serves_others_(setup.group.size() > 1 && scheme.root_updates && updates_),
        guard_(plan_, setup.workers),
        ready_times_(setup.params.size()) {
    // First, so that a setting that only some ranks were given is reported as that.
    if (setup.group.size() > 1)
      ComparePlans(setup.group, SchemeText(setup.group, scheme, setup.scheme, setup.workers),
                   plan_);
    if (setup.scheme.timeout >= 0 && !scheme.may_skip_late)
      throw ConfigError(
          fmt::format("--exchange_timeout is for --exchange=server, not for {}", scheme.name),
          "remove it, or use --exchange=server");
    if (setup.staleness != 0)
      throw ConfigError(fmt::format("--exchange={} is synchronous, but the staleness is {}",
                                    scheme.name, setup.staleness),
                        "remove --staleness, or use an exchange with clocks");
    if (setup.server != ServerSettings{})
      throw ConfigError(fmt::format("--server_update, --combine, --consistency, --bandwidth_mbps "
                                    "and --send_order are for --exchange=ssp, not for {}",
                                    scheme.name),
                        "remove them, or use --exchange=ssp");
    for (int b = Count(plan_.buckets); b-- > 0;) urgent_first_.push_back(b);
    Ensure(setup.group.size() * setup.workers == 1 || MemoryIsOfHost(),
           "memory of devices needs a staged exchange");
    if (setup.group.size() == 1) return;
    TakeFactors(setup.group, setup.workers);
    AddResiduals();
    SchemeSettings settings = setup.scheme;
    CommThread& thread = *setup.group.thread();
    if (!settings.hosts.known()) settings.hosts = HostLayout(thread.hosts());
    const ElementType& elements = ElementsOf<T>();
    std::vector<Transfer> transfers =
        TransfersOf(scheme, settings, thread.rank(), thread.size(), elements, buckets_);
    for (size_t b = 0; b < buckets_.size(); ++b) encoded_here_.emplace_back(transfers[b]);
    engine_ =
        std::make_unique<PolledEngine>(thread, elements, std::move(transfers), settings.timeout);
  }

  // Ends the exchange with the other ranks, unless a step was broken off: then messages that are
  // still on their way write to the gradients and values, and the transport is given up.
  ~Synchronous() override {
    try {
      if (std::uncaught_exceptions() > 0 || !guard_.between_steps()) return;
      Cancel();
      if (engine_) Close();
    } catch (const std::exception&) {
      // The group has failed; the next call that waits reports it.
    }
  }

  void AwaitValue(int worker, int param, Stream& stream) override {
    {
      std::lock_guard lock(mutex_);
      guard_.CheckReadable(worker, param);
    }
    const Timer timer;
    updating_ = 0;
    if (serves_others_) UpdateCompleteSums(stream, guard_.steps());
    Finish(At(plan_.bucket_of, param), stream, Then::kUpdate);
    if (worker == 0) wait_seconds_ += timer.Seconds() - updating_;
  }

  void GradientReady(int worker, int param, Stream& stream) override {
    if (WantsFactors(param)) factors_->Close(worker, param);
    bool complete = false;
    bool last = false;
    {
      std::lock_guard lock(mutex_);
      complete = guard_.Announce(worker, param);
      last = guard_.all_announced();
    }
    if (worker == 0) NoteReady(param);
    if (!overlap_ || !engine_) return;
    if (complete) {
      // After the last gradient the caller waits for the verdict, unless that is here already.
      const bool waits_next = last && !VerdictIsGood(guard_.steps() + 1);
      StartSum(At(plan_.bucket_of, param), waits_next ? Progress::kByCaller : Progress::kByThread);
    }
    if (serves_others_ && worker == 0) UpdateDuringBackward(stream);
  }

  bool WantsFactors(int param) const override { return factors_ && factors_->takes(param); }

  void FactorsReady(int worker, int param, const StepFactors<T>& factors, Stream&) override {
    Ensure(WantsFactors(param), "factors were offered to an exchange that takes gradients");
    factors_->Offer(worker, param, factors);
  }

  void Vote(const StepVotes& mine) override {
    {
      std::lock_guard lock(mutex_);
      guard_.Vote();
    }
    if (engine_) return engine_->Vote(mine);
    my_votes_ = mine;
  }

  void FinishStep() override {
    {
      std::lock_guard lock(mutex_);
      guard_.Finish();
    }
    if (!engine_ && update_needs_all_)
      for (const BucketMemory& bucket : buckets_) AddOtherWorkers(bucket);
    if (engine_ && !overlap_)
      for (int b = 0; b < Count(plan_.buckets); ++b) StartSum(b, Progress::kByCaller);
  }

  StepVotes AwaitVerdict() override {
    int64_t step = 0;
    {
      std::lock_guard lock(mutex_);
      guard_.Judge();
      step = guard_.steps();
    }
    if (!engine_) return my_votes_;
    const Timer timer;
    engine_->Await(
        fmt::format("the votes of step {}", step), [&] { return engine_->verdicts() >= step; },
        Progress::kByCaller);
    wait_seconds_ += timer.Seconds();
    return engine_->verdict();
  }

  void Cancel() override {
    Stream stream;  // unused: there are no updates
    for (int bucket : urgent_first_) Finish(bucket, stream, Then::kDiscard);
  }

  void Drain(int worker, Stream& stream) override {
    const Timer timer;
    updating_ = 0;
    for (int bucket : urgent_first_) Finish(bucket, stream, Then::kUpdate);
    if (worker == 0) wait_seconds_ += timer.Seconds() - updating_;
  }

  // The residuals of every parameter with such a codec: of the parts that this rank encodes and of
  // the sums that it makes, 0 elsewhere. The caller may write all elements.
  std::vector<StateTensor<T>> state() override {
    for (size_t b = 0; b < encoded_here_.size(); ++b) encoded_here_[b].ClearElsewhere(buckets_[b]);
    std::vector<StateTensor<T>> tensors;
    if constexpr (std::is_same_v<T, float>) {
      for (size_t b = 0; b < buckets_.size(); ++b) {
        if (!buckets_[b].part_residual) continue;
        for (int p : plan_.buckets[b].params) {
          const int64_t at = InBucket(plan_.buckets[b], p);
          const ParamInfo<T>& param = At(params_, p);
          tensors.push_back({fmt::format("part residual of {}, rank {}", param.name, rank_),
                             buckets_[b].part_residual + at, param.count});
          tensors.push_back({fmt::format("sum residual of {}, rank {}", param.name, rank_),
                             buckets_[b].sum_residual + at, param.count});
        }
      }
    }
    return tensors;
  }

  std::vector<double> ready_times() const override { return ready_times_; }

  ExchangeStats stats() const override {
    return {.wait_seconds = wait_seconds_,
            .bytes_sent = engine_ ? engine_->bytes_sent() : 0,
            .bytes_received = engine_ ? engine_->bytes_received() : 0,
            .steps = guard_.steps()};
  }

 private:
  using Update = StepGuard::Update;
  enum class Then { kUpdate, kDiscard };  // what happens with a sum

  // ---- Memory ----

  // Where the parameter begins in the memory of its bucket.
  int64_t InBucket(const Bucket& bucket, int param) const {
    return At(params_, param).arena_offset - At(params_, bucket.params.front()).arena_offset;
  }

  bool MemoryIsOfHost() const {
    return std::ranges::all_of(params_,
                               [](const auto& param) { return param.memory == DeviceKind::kCpu; });
  }

  // The bucket of a parameter that is exchanged by factors has no other.
  void TakeFactors(Group& group, int workers) {
    const auto offers = [](const auto& param) { return param.factors.rows > 0; };
    if (std::none_of(params_.begin(), params_.end(), offers)) return;
    factors_ = std::make_unique<FactorGather<T>>(group, params_, workers);
    for (size_t b = 0; b < buckets_.size(); ++b) {
      const int param = plan_.buckets[b].params.front();
      if (!factors_->takes(param)) continue;
      BucketMemory& bucket = buckets_[b];
      bucket.gradient = factors_->memory(param);
      bucket.parts = factors_->parts(param);
      bucket.count = std::accumulate(bucket.parts.begin(), bucket.parts.end(), int64_t{0});
      bucket.other_gradients.clear();
      bucket.codec = nullptr;  // for gradients
    }
  }

  void AddResiduals() {
    for (BucketMemory& bucket : buckets_) {
      if (!bucket.codec) continue;
      if (!std::is_same_v<T, float>)
        throw ConfigError("gradients of double precision cannot be encoded",
                          "train in single precision, or use --wire=fp32");
      if (!bucket.codec->has_residual()) continue;
      const auto count = static_cast<size_t>(bucket.count);
      bucket.part_residual = residuals_.emplace_back(count).data();
      bucket.sum_residual = residuals_.emplace_back(count).data();
    }
  }

  // ---- Transfers: see TransfersOf ----

  int ValuesOf(int bucket) const { return Count(plan_.buckets) + bucket; }

  void StartSum(int bucket, Progress next) {
    // A rank that does not update may be sent the new values from now on.
    engine_->Start(bucket, updates_ ? bucket : ValuesOf(bucket), next);
  }
  bool SumIsHere(int bucket, int64_t step) const {
    return !engine_ || engine_->steps(bucket) >= step;
  }
  bool VerdictIsGood(int64_t step) const { return engine_->verdicts() >= step && engine_->good(); }

  // Returns when the sum is here, or if there are more completions than `seen`.
  void AwaitSum(int bucket, int64_t step, int64_t seen = INT64_MAX) {
    if (!SumIsHere(bucket, step))
      engine_->Await(
          fmt::format("the sum of the gradients of {} in step {}", At(names_, bucket), step),
          [&] { return SumIsHere(bucket, step) || engine_->completions() > seen; },
          Progress::kByCaller);
    if (SumIsHere(bucket, step)) engine_->HandOverProgress();
  }

  // On a rank that does not update: its gradients are sent, and rank 0's values are here.
  void AwaitValues(int bucket, int64_t step) {
    const auto here = [&] {
      return engine_->steps(bucket) >= step && engine_->steps(ValuesOf(bucket)) >= step;
    };
    if (here()) return engine_->HandOverProgress();
    engine_->Await(fmt::format("the values of {} after step {}", At(names_, bucket), step), here);
  }

  void Close() {
    const int64_t steps = guard_.steps();
    const int transfers = serves_others_ || !updates_ ? 2 * Count(buckets_) : Count(buckets_);
    for (int t = 0; t < transfers; ++t)
      engine_->Await(fmt::format("the end of step {}", steps),
                     [&] { return engine_->steps(t) >= steps; });
    engine_->Close();
  }

  static void AddOtherWorkers(const BucketMemory& bucket) {
    AddOtherParts(ElementsOf<T>(), bucket.count, bucket.gradient, bucket.other_gradients);
  }

  // ---- Updates ----

  // Called by worker 0's thread.
  void NoteReady(int param) {
    if (ready_step_ != guard_.steps()) {
      ready_step_ = guard_.steps();
      since_first_ = Timer();
    }
    At(ready_times_, param) = since_first_.Seconds();
  }

  // Updates every bucket whose sum is complete, most urgent first: other ranks wait for rank 0's
  // values.
  void UpdateCompleteSums(Stream& stream, int64_t step) {
    const auto is_here = [&](int bucket) { return SumIsHere(bucket, step); };
    if (update_needs_all_ && !std::all_of(urgent_first_.begin(), urgent_first_.end(), is_here))
      return;
    while (UpdateOne(stream)) continue;
  }

  // The same during the backward pass of worker 0 on rank 0, if the step will not be cancelled.
  // With clipping the norm is not known before its end.
  void UpdateDuringBackward(Stream& stream) {
    const int64_t completions = engine_->completions();
    if (update_needs_all_ || completions == completions_seen_) return;
    if (!VerdictIsGood(guard_.steps() + 1)) return;
    completions_seen_ = completions;
    while (UpdateOne(stream)) continue;
  }

  // Updates the most urgent bucket whose sum is complete; false if there is none.
  bool UpdateOne(Stream& stream) {
    for (int bucket : urgent_first_) {
      {
        std::lock_guard lock(mutex_);
        if (!guard_.pending(bucket) || !SumIsHere(bucket, guard_.step_of(bucket))) continue;
      }
      Finish(bucket, stream, Then::kUpdate);
      return true;
    }
    return false;
  }

  // Completes the bucket's last step: after this it has its new values. One worker does it, the
  // others wait for that one.
  void Finish(int bucket, Stream& stream, Then then) {
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
      if (updates_) {
        AwaitAndUpdate(bucket, step, stream, then);
      } else {
        AwaitReceived(bucket, step, stream, then);
      }
    } catch (...) {
      error = std::current_exception();
    }
    std::lock_guard lock(mutex_);
    if (error) failed_ = error;
    guard_.Updated(bucket);
    changed_.notify_all();
    if (error) std::rethrow_exception(error);
  }

  void AwaitReceived(int bucket, int64_t step, Stream& stream, Then then) {
    AwaitValues(bucket, step);
    if (then == Then::kDiscard) return;
    if (!received_) return;
    for (int param : At(plan_.buckets, bucket).params) received_(param, stream);
  }

  void AwaitAndUpdate(int bucket, int64_t step, Stream& stream, Then then) {
    if (!engine_) {
      if (!update_needs_all_) AddOtherWorkers(At(buckets_, bucket));  // else in FinishStep
    } else if (update_needs_all_) {
      for (int b = 0; b < Count(plan_.buckets); ++b) AwaitSum(b, step);
    } else {
      AwaitSumAndUpdateOthers(bucket, step, stream, then);
    }
    const Timer timer;
    if (then == Then::kUpdate) {
      FormGradients(bucket, step, stream);
      for (int param : At(plan_.buckets, bucket).params) update_(param, stream);
    }
    updating_ += timer.Seconds();
    if (serves_others_) engine_->Start(ValuesOf(bucket));
  }

  // Where factors were exchanged: the summed gradients that the update of this bucket looks at.
  void FormGradients(int bucket, int64_t step, Stream& stream) {
    if (!factors_) return;
    for (int b = 0; b < Count(plan_.buckets); ++b) {
      const int param = At(plan_.buckets, b).params.front();
      if ((b == bucket || update_needs_all_) && factors_->takes(param))
        factors_->Form(param, step, At(params_, param).gradient, stream);
    }
  }

  // Waits for this sum, and meanwhile updates other buckets whose sums are complete.
  void AwaitSumAndUpdateOthers(int bucket, int64_t step, Stream& stream, Then then) {
    while (!SumIsHere(bucket, step)) {
      const int64_t seen = engine_->completions();
      if (then == Then::kDiscard || !UpdateOne(stream)) AwaitSum(bucket, step, seen);
    }
    engine_->HandOverProgress();
  }

  const std::vector<ParamInfo<T>> params_;
  const Plan plan_;
  const std::vector<std::string> names_;      // by bucket, for messages
  std::vector<BucketMemory> buckets_;         // constant after construction
  std::deque<std::vector<float>> residuals_;  // that the buckets point to
  std::vector<EncodedHere> encoded_here_;     // by bucket
  std::unique_ptr<FactorGather<T>> factors_;  // null: all parameters are exchanged by gradients
  const std::function<void(int, Stream&)> update_;
  const std::function<void(int, Stream&)> received_;
  const bool update_needs_all_;
  const bool overlap_;
  const int rank_;
  const bool updates_;             // this rank does; else its values come from rank 0
  const bool serves_others_;       // other ranks get their values from this one
  std::vector<int> urgent_first_;  // buckets: the backward pass ends with what Forward needs first
  std::mutex mutex_;               // guards guard_ and failed_ while workers run
  std::condition_variable changed_;
  StepGuard guard_;
  std::exception_ptr failed_;
  StepVotes my_votes_;  // with one rank
  // Of worker 0's thread:
  double wait_seconds_ = 0;
  std::vector<double> ready_times_;
  int64_t ready_step_ = -1;
  Timer since_first_;
  int64_t completions_seen_ = 0;          // at the last UpdateDuringBackward
  static thread_local double updating_;   // seconds that the current call spent in updates
  std::unique_ptr<PolledEngine> engine_;  // null with one rank; last, as it uses the memory above
};

template <typename T>
thread_local double Synchronous<T>::updating_ = 0;

}  // namespace

template <typename T>
std::unique_ptr<Exchange<T>> MakeSynchronous(const Scheme& scheme, const ExchangeSetup<T>& setup) {
  return std::make_unique<Synchronous<T>>(scheme, setup);
}

template std::unique_ptr<Exchange<float>> MakeSynchronous(const Scheme&,
                                                          const ExchangeSetup<float>&);
template std::unique_ptr<Exchange<double>> MakeSynchronous(const Scheme&,
                                                           const ExchangeSetup<double>&);

}  // namespace carafe
