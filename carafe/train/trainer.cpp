// The loop of a run and its borders: tests, the end. Starting is in trainer_start.cpp, snapshots in
// trainer_state.cpp, what is shown in trainer_display.cpp.
#include "carafe/train/trainer.h"

#include <fmt/format.h>

#include "carafe/base/hash.h"
#include "carafe/base/index.h"
#include "carafe/base/log.h"
#include "carafe/net/weights.h"
#include "carafe/proto/fork_messages.h"
#include "carafe/train/detection_score.h"

namespace carafe {
namespace {

constexpr int64_t kIterationsToMeasure = 5;  // before buckets are merged

bool IsDue(int64_t interval, int64_t iteration) {
  return interval > 0 && iteration % interval == 0;
}

}  // namespace

template <typename T>
Trainer<T>::~Trainer() = default;

template <typename T>
TrainEnd Trainer<T>::Run() {
  if (root()) {
    LogInfo("Solving {}", solver_->net().name());
    LogInfo("Learning Rate Policy: {}", solver_->learning_rate().policy());
  }
  const TrainEnd end = Loop(solver_->param().max_iter());
  FinishRun(end);
  return end;
}

template <typename T>
TrainEnd Trainer<T>::Step(int64_t count) {
  losses_.clear();  // the window of the smoothed loss restarts, as in Caffe
  const TrainEnd end = Loop(solver_->iteration() + count);
  solver_->Drain();
  return end;
}

template <typename T>
TrainEnd Trainer<T>::Loop(int64_t until) {
  while (solver_->iteration() < until) {
    const TrainEnd end = OneIteration();
    if (end != TrainEnd::kDone) return end;
  }
  return TrainEnd::kDone;
}

template <typename T>
TrainEnd Trainer<T>::OneIteration() {
  if (options_.before_iteration) options_.before_iteration();
  const SolverParameter& param = solver_->param();
  const int64_t iteration = solver_->iteration();
  if (DueAtRoundEnd(param.test_interval(), iteration) &&
      (iteration > 0 || param.test_initialization()))
    TestAll();

  observer_->BeginStep(iteration, CommWait());
  const StepVotes verdict = solver_->Step({.wishes = [this] { return Wishes(); },
                                           .computed = [this] { observer_->Ready(CommWait()); }});
  observer_->EndStep(CommWait());
  TakeVerdict(verdict, iteration - solver_->staleness());
  if (IsDue(param.display(), iteration)) Display(iteration);
  if (progress_) progress_->Show(ProgressNow());

  const int64_t done = solver_->iteration();
  if (DueAtRoundEnd(options_.check_replicas, done)) CheckReplicas();
  if (options_.bucket_mb == 0 && group_.size() > 1 && (!wire_ || wire_->per_element()) &&
      !solver_->HistoryIsSharded() && *options_.exchange != "local" &&
      done == start_iteration_ + kIterationsToMeasure)
    MergeBuckets();
  if (verdict.terminate > 0) {  // its exit code promises a snapshot
    solver_->Drain();
    CheckWeightsFinite();
    Snapshot();
    return TrainEnd::kTerminated;
  }
  if (DueAtRoundEnd(param.snapshot(), done) || verdict.snapshot > 0) TrySnapshot();
  return verdict.stop > 0 ? TrainEnd::kStopped : TrainEnd::kDone;
}

// With --exchange=local what needs equal replicas waits for the round's end: whether a multiple of
// `interval` lies in the round that ends at `iteration`.
template <typename T>
bool Trainer<T>::DueAtRoundEnd(int64_t interval, int64_t iteration) const {
  const int64_t steps = solver_->round_steps();
  if (interval <= 0 || iteration % steps != 0) return false;
  return iteration == 0 || iteration / interval > (iteration - steps) / interval;
}

// The votes of `iteration`: those of the first ones that a stale exchange returns are empty.
template <typename T>
void Trainer<T>::TakeVerdict(const StepVotes& verdict, int64_t iteration) {
  if (verdict.bad > 0 && options_.on_nan == OnNan::kStop) StopOnNan(iteration);
  if (verdict.weight > 0) AddLoss(verdict.loss / verdict.weight);
}

// What signals ask of this rank; the votes of all ranks decide.
template <typename T>
StepVotes Trainer<T>::Wishes() {
  StepVotes mine;
  if (signals_) {
    const SignalRequests asked = signals_->Take();
    mine.stop = asked.stop;
    mine.terminate = asked.terminate;
    mine.snapshot = asked.snapshot;
  }
  return mine;
}

template <typename T>
double Trainer<T>::CommWait() const {
  return solver_->exchange_stats().wait_seconds;
}

// What was merged changes no bit of any result, only when gradients leave. (With a codec that looks
// at more than one element it would, so buckets stay as they are.)
template <typename T>
void Trainer<T>::MergeBuckets() {
  const auto merged = solver_->MergeBuckets();
  if (!root()) return;
  LogInfo(
      "a sum over all ranks takes {:.0f} us and {:.2f} ms per MB: gradients travel in {} bucket{}, "
      "messages of {} KB",
      merged.cost.latency * 1e6, merged.cost.per_byte * 1048576e3, merged.buckets,
      merged.buckets == 1 ? "" : "s", merged.message_bytes >> 10);
}

template <typename T>
void Trainer<T>::FinishRun(TrainEnd end) {
  solver_->Drain();
  const std::vector<StepVotes> late = solver_->TakeVerdicts();
  for (int i = 0; i < Count(late); ++i)
    TakeVerdict(At(late, i), solver_->iteration() - Count(late) + i);
  observer_->Finish();
  ShowStaleness();
  CheckReplicas();
  const SolverParameter& param = solver_->param();
  if (param.snapshot_after_train() && state_.last_snapshot() != solver_->iteration()) {
    CheckWeightsFinite();
    Snapshot();
  }
  if (progress_) progress_->Clear();
  if (end != TrainEnd::kDone) {
    if (root()) LogInfo("Optimization stopped early.");
    if (metrics_) metrics_->Flush();
    if (root()) SayHowToResume();
    WriteOutputs();
    return;
  }
  const int64_t iteration = solver_->iteration();
  if (IsDue(param.display(), iteration)) {
    double loss[] = {solver_->TrainLoss()};
    group_.Sum(loss);
    AddLoss(loss[0] / workers());
    if (root()) LogInfo("Iteration {}, loss = {:g}", iteration, smoothed_loss_);
    if (outputs_)
      outputs_->AddTrain({.iteration = iteration,
                          .seconds = since_start_.Seconds(),
                          .loss = losses_.back(),
                          .scores = {}});
  }
  if (IsDue(param.test_interval(), iteration)) TestAll();
  if (progress_) progress_->Clear();
  if (root()) LogInfo("Optimization Done.");
  if (metrics_) metrics_->Flush();
  WriteOutputs();
}

template <typename T>
void Trainer<T>::SayHowToResume() const {
  const int64_t iteration = solver_->iteration();
  if (state_.last_snapshot() == iteration) {
    LogInfo("stopped at iteration {}; to go on from there: the same command with --snapshot=auto",
            iteration);
  } else {
    LogInfo("stopped at iteration {}, without a snapshot (snapshot_after_train: false)", iteration);
  }
}

template <typename T>
std::vector<TestResult> Trainer<T>::TestAll() {
  solver_->Drain();
  std::vector<TestResult> results;
  const int64_t iteration = solver_->iteration();
  for (size_t i = 0; i < solver_->test_nets().size(); ++i) {
    const int64_t count = solver_->param().test_iter(static_cast<int>(i));
    if (root()) LogInfo("Iteration {}, Testing net (#{})", iteration, i);
    Net<T>& net = *solver_->test_nets()[i];
    // Test t of a net goes on where test t-1 ended, as Caffe's cursor does.
    const auto forward = [&](int64_t batch, int64_t stride) {
      return solver_->TestForward(static_cast<int>(i), batch, stride);
    };
    const auto show = [&](int64_t done) {
      if (!progress_) return;
      ProgressState state = ProgressNow();
      state.phase = "test";
      state.done = done;
      state.total = count;
      state.images_per_second = 0;
      progress_->Show(state);
    };
    const auto fork = ForkPart<ForkSolverParameter>(solver_->param());
    const auto show_class = [&](int label, double precision) {
      if (fork.show_per_class_result()) LogInfo("class{}: {:g}", label, precision);
    };
    const int64_t first = state_.tests_done() * count;
    const TestResult result =
        fork.eval_type() == "detection"
            ? RunDetectionTest<T>(group_, stream_, net, first, count, fork.ap_version(), forward,
                                  show, show_class)
            : RunTest<T>(group_, stream_, net, first, count, forward, show);
    if (root()) {
      if (solver_->param().test_compute_loss()) {
        LogInfo("Test loss: {:g}", result.loss);
        if (metrics_) metrics_->Add(iteration, "test", static_cast<int>(i), "loss", result.loss);
      }
      int number = 0;
      for (const Score& score : result.scores) {
        LogInfo("    Test net output #{}: {} = {:g}{}", number++, score.blob, score.value,
                LossPart(score));
        if (metrics_) {
          metrics_->Add(iteration, "test", static_cast<int>(i), score.Label(), score.value);
        }
      }
      if (outputs_)
        outputs_->AddTest(i, {.iteration = iteration,
                              .seconds = since_start_.Seconds(),
                              .loss = result.loss,
                              .scores = result.scores});
      if (metrics_) metrics_->Flush();
    }
    results.push_back(result);
  }
  state_.set_tests_done(state_.tests_done() + 1);
  return results;
}

// Replicas are bit-equal after every synchronous step; a difference is memory gone bad, or a bug.
template <typename T>
void Trainer<T>::CheckReplicas() {
  if (group_.size() == 1 || options_.check_replicas == 0) return;
  solver_->Drain();
  const uint64_t hash = WeightsHash(stream_, solver_->net());
  const std::vector<std::string> all =
      group_.AllGather(fmt::format("{:016x}", hash), "weight hashes");
  int odd = -1;
  for (int r = 1; r < group_.size(); ++r) {
    if (all[static_cast<size_t>(r)] != all[0]) odd = r;
  }
  if (odd < 0) return;
  std::string blobs;
  for (const Param<T>& param : solver_->net().params()) {
    const std::vector<T> values = param.blob->DataToHost(stream_);
    blobs += fmt::format("{:016x}", Hash64(values.data(), values.size() * sizeof(T), 0));
  }
  const std::vector<std::string> details = group_.AllGather(blobs, "blob hashes");
  for (size_t p = 0; p < solver_->net().params().size(); ++p) {
    for (int r = 1; r < group_.size(); ++r) {
      if (details[static_cast<size_t>(r)].substr(p * 16, 16) == details[0].substr(p * 16, 16))
        continue;
      throw CommError(
          fmt::format("after iteration {} rank {} (on {}) differs from rank 0 in parameter {}",
                      solver_->iteration(), r, group_.host(r), solver_->net().params()[p].name),
          "resume from the last snapshot; if it happens again, test the memory of that machine");
    }
  }
}

template <typename T>
void Trainer<T>::StopOnNan(int64_t iteration) {
  std::string found = solver_->FindBadBlob();
  if (!found.empty()) found = fmt::format("rank {}: {}", group_.rank(), found);
  std::string where;
  for (const std::string& text : group_.AllGather(found, "where the loss went bad")) {
    if (!text.empty() && where.empty()) where = text;
  }
  if (where.empty()) where = "its updates are done: values of that iteration are gone";
  throw ConfigError(
      fmt::format("the loss is NaN or infinite at iteration {} ({})", iteration, where),
      "lower base_lr, use clip_gradients, or check the data; --on_nan=continue goes on regardless");
}

template class Trainer<float>;
template class Trainer<double>;

}  // namespace carafe
