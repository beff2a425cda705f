// The exchange "local" (local SGD, DiLoCo): every rank trains alone for a round of H steps, then
// the mean of the ranks' changes goes through an outer step. With a the values at the start of the
// round, w_r those of rank r at its end, P ranks, outer rate n and outer momentum m:
//   d = sum_r (a - w_r) / P        v' = m v + d        a' = w' = a - n (d + m v')
// which for n = 1 and m = 0 is the mean of the ranks' values. The steps of a round send nothing,
// not even votes: losses and wishes are added up, and its last step gives their sum over all ranks.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/exchange/elements.h"
#include "carafe/exchange/exchange_registry.h"
#include "carafe/exchange/synchronous.h"

namespace carafe {
namespace {

constexpr int kNotLearned = -1;

void AddVotes(const StepVotes& more, StepVotes& sum) {
  sum.loss += more.loss;
  sum.weight += more.weight;
  sum.stop += more.stop;
  sum.terminate += more.terminate;
  sum.snapshot += more.snapshot;
  sum.bad += more.bad;
}

template <typename T>
void Check(const ExchangeSetup<T>& setup) {
  if (setup.scheme.timeout >= 0)
    throw ConfigError("--exchange_timeout is for --exchange=server, not for local",
                      "remove it, or use --exchange=server");
  if (setup.staleness != 0)
    throw ConfigError(
        fmt::format("--exchange=local is synchronous, but the staleness is {}", setup.staleness),
        "remove --staleness, or use an exchange with clocks");
  for (const ParamInfo<T>& param : setup.params) {
    if (param.memory != DeviceKind::kCpu)
      throw ConfigError("--exchange=local keeps the values of a round's start in CPU memory",
                        "train on CPUs, or use --exchange=allreduce");
    if (param.codec != nullptr)
      throw ConfigError("--exchange=local sends changes as they are",
                        "remove --wire, or use --exchange=allreduce");
  }
}

// Two synchronous exchanges: `inner_`, of this rank's workers alone, in every step, and `outer_`,
// of all ranks, once a round. The changes lie where the gradients were: those are 0 after the last
// update of a round, and nobody adds to them before all values have been read again.
//
// Running statistics stay with each worker during a round; their mean is taken at its end.
//
// Threads: see Exchange.
template <typename T>
class LocalSteps final : public Exchange<T> {
 public:
  explicit LocalSteps(const ExchangeSetup<T>& setup)
      : params_(setup.params.begin(), setup.params.end()),
        ends_round_(setup.ends_round),
        outer_rate_(static_cast<T>(setup.outer_rate)),
        outer_momentum_(static_cast<T>(setup.outer_momentum)),
        ranks_(setup.group.size()),
        update_(setup.update),
        inner_of_(params_.size(), kNotLearned),
        starts_(params_.size()),
        momentum_(params_.size()),
        pending_(params_.size()) {
    Check(setup);
    std::vector<ParamInfo<T>> inner, outer;
    for (int p = 0; p < Count(params_); ++p) {
      ParamInfo<T> info = At(params_, p);
      info.factors = {};
      if (info.learned) {
        At(inner_of_, p) = Count(inner);
        inner.push_back(info);
        learned_.push_back(p);
        At(starts_, p).resize(static_cast<size_t>(info.count));
        if (outer_momentum_ != 0) At(momentum_, p).resize(static_cast<size_t>(info.count));
      }
      info.other_gradients.clear();
      outer.push_back(info);
    }
    inner_ = MakeSynchronous(
        FindScheme("allreduce"),
        ExchangeSetup<T>{
            .group = alone_,
            .params = inner,
            .update = [this](int i, Stream& stream) { update_(At(learned_, i), stream); },
            .workers = setup.workers,
            .update_needs_all = setup.update_needs_all,
            .bucket_bytes = setup.bucket_bytes});
    outer_ = MakeSynchronous(
        FindScheme("allreduce"),
        ExchangeSetup<T>{.group = setup.group,
                         .params = outer,
                         .update = [this](int p, Stream& stream) { OuterStep(p, stream); },
                         .bucket_bytes = setup.bucket_bytes,
                         .bucket_sizes = setup.bucket_sizes,
                         .overlap = setup.overlap,
                         .scheme = setup.scheme});
  }

  void AwaitValue(int worker, int param, Stream& stream) override {
    {
      std::lock_guard lock(mutex_);
      AwaitOuter(param, stream);
    }
    const int inner = At(inner_of_, param);
    if (inner != kNotLearned) inner_->AwaitValue(worker, inner, stream);
  }
  void FinishReads(int worker, Stream& stream) override {
    {
      std::lock_guard lock(mutex_);
      for (int p = 0; p < Count(params_); ++p) AwaitOuter(p, stream);
    }
    inner_->FinishReads(worker, stream);
  }

  // Running statistics are read at the round's end.
  void GradientReady(int worker, int param, Stream& stream) override {
    {
      std::lock_guard lock(mutex_);
      AwaitOuter(param, stream);  // has been awaited, unless the step has no forward pass
    }
    if (worker == 0) stream_ = &stream;
    const int inner = At(inner_of_, param);
    if (inner != kNotLearned) inner_->GradientReady(worker, inner, stream);
  }

  void Vote(const StepVotes& mine) override {
    inner_->Vote(mine);
    std::lock_guard lock(mutex_);
    AddVotes(mine, votes_);
  }

  void FinishStep() override {
    inner_->FinishStep();
    ++steps_;
    ++in_round_;
  }

  // One without votes inside a round.
  StepVotes AwaitVerdict() override {
    inner_->AwaitVerdict();
    if (ends_round_ && !ends_round_()) return {};
    StepVotes verdict = CloseRound(*stream_);
    AddVotes(std::exchange(late_, {}), verdict);
    return verdict;
  }
  std::vector<StepVotes> TakeVerdicts() override {
    if (late_.weight == 0) return {};
    return {std::exchange(late_, {})};
  }

  // Discards the round that has just ended.
  void Cancel() override {
    outer_->Cancel();
    inner_->Cancel();
    std::ranges::fill(pending_, 0);
    for (const int p : learned_) std::ranges::copy(At(starts_, p), At(params_, p).value);
  }

  // Inside a round: ends it here, on all ranks alike.
  void Drain(int /*worker*/, Stream& stream) override {
    if (in_round_ > 0) AddVotes(CloseRound(stream), late_);
    outer_->Drain(0, stream);
    inner_->Drain(0, stream);
    std::ranges::fill(pending_, 0);
    fresh_ = true;
  }

  // Equal on all ranks.
  std::vector<StateTensor<T>> state() override {
    std::vector<StateTensor<T>> tensors;
    for (const int p : learned_)
      if (!At(momentum_, p).empty())
        tensors.push_back({.name = "outer momentum of " + At(params_, p).name,
                           .data = At(momentum_, p).data(),
                           .count = At(params_, p).count});
    return tensors;
  }
  std::vector<double> ready_times() const override { return std::vector<double>(params_.size()); }
  ExchangeStats stats() const override {
    ExchangeStats stats = outer_->stats();
    stats.steps = steps_;
    return stats;
  }

 private:
  // The caller holds mutex_.
  void AwaitOuter(int param, Stream& stream) {
    if (std::exchange(fresh_, false))
      for (const int p : learned_)
        std::copy_n(At(params_, p).value, At(params_, p).count, At(starts_, p).begin());
    if (std::exchange(At(pending_, param), 0)) outer_->AwaitValue(0, param, stream);
  }

  // On the thread of worker 0, while the others rest. Sums are under way when it returns.
  StepVotes CloseRound(Stream& stream) {
    inner_->Drain(0, stream);  // the updates of the round's last step
    outer_->Vote(std::exchange(votes_, {}));
    for (int p = 0; p < Count(params_); ++p) {
      const ParamInfo<T>& param = At(params_, p);
      if (param.learned) {
        const T* start = At(starts_, p).data();
        for (int64_t i = 0; i < param.count; ++i) param.gradient[i] = start[i] - param.value[i];
      } else {
        AddOtherParts(ElementsOf<T>(), param.count, param.gradient,
                      {param.other_gradients.begin(), param.other_gradients.end()});
      }
      outer_->GradientReady(0, p, stream);
      At(pending_, p) = 1;
    }
    outer_->FinishStep();
    in_round_ = 0;
    return outer_->AwaitVerdict();
  }

  void OuterStep(int p, Stream& stream) {
    const ParamInfo<T>& param = At(params_, p);
    if (!param.learned) return update_(p, stream);
    const T share = T(1) / static_cast<T>(ranks_);
    T* start = At(starts_, p).data();
    T* velocity = At(momentum_, p).empty() ? nullptr : At(momentum_, p).data();
    for (int64_t i = 0; i < param.count; ++i) {
      T change = param.gradient[i] * share;
      if (velocity) {
        velocity[i] = outer_momentum_ * velocity[i] + change;
        change += outer_momentum_ * velocity[i];
      }
      start[i] -= outer_rate_ * change;
      param.value[i] = start[i];
      param.gradient[i] = 0;
    }
  }

  const std::vector<ParamInfo<T>> params_;
  const std::function<bool()> ends_round_;
  const T outer_rate_, outer_momentum_;
  const int ranks_;
  const std::function<void(int, Stream&)> update_;
  std::vector<int> learned_;              // indices
  std::vector<int> inner_of_;             // by parameter: its index in inner_, or kNotLearned
  std::vector<std::vector<T>> starts_;    // by parameter: values at the start of the round
  std::vector<std::vector<T>> momentum_;  // by parameter; empty without outer momentum
  std::mutex mutex_;                      // guards what follows, while workers run
  std::vector<char> pending_;             // by parameter: outer_ has not been asked for its value
  bool fresh_ = true;                     // the values of the net are those of a round's start
  StepVotes votes_;                       // of this rank, in the round
  // Of worker 0's thread:
  int64_t steps_ = 0, in_round_ = 0;  // finished
  StepVotes late_;                    // verdicts of rounds that Drain has ended
  Stream own_stream_;                 // until a gradient comes with worker 0's
  Stream* stream_ = &own_stream_;
  Group alone_;
  std::unique_ptr<Exchange<T>> inner_, outer_;
};

const RegisterExchange<LocalSteps> kRegistered{
    {.name = "local",
     .summary = "Each rank trains alone for --local_steps, then the mean of the changes.",
     .describe = [](const SchemeSettings& settings, int size) {
       return fmt::format("changes of rounds, {}",
                          FindScheme("allreduce").describe(settings, size));
     }}};

}  // namespace
}  // namespace carafe
