// The loop of a run and its borders: tests, snapshots, the end. Starting is in trainer_start.cpp,
// what is shown in trainer_display.cpp.
#include "carafe/train/trainer.h"

#include <fmt/format.h>

#include <cmath>

#include "carafe/base/hash.h"
#include "carafe/base/log.h"
#include "carafe/net/weights.h"
#include "carafe/solvers/snapshot.h"

namespace carafe {
namespace {

constexpr int64_t kIterationsToMeasure = 5;  // before buckets are merged

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
  const int interval = param.test_interval();
  if (interval > 0 && iteration % interval == 0 && (iteration > 0 || param.test_initialization())) {
    TestAll();
  }
  const auto waited = [this] { return solver_->exchange()->stats().wait_seconds; };
  observer_->BeginStep(iteration, waited());
  const auto wishes = [&] {
    StepVotes mine;
    if (signals_) {
      const SignalRequests asked = signals_->Take();
      mine.stop = asked.stop;
      mine.terminate = asked.terminate;
      mine.snapshot = asked.snapshot;
    }
    return mine;
  };
  const StepVotes verdict =
      solver_->Step({.wishes = wishes, .computed = [&] { observer_->Ready(waited()); }});
  observer_->EndStep(waited());
  if (verdict.bad > 0 && options_.on_nan == "stop") StopOnNan(iteration);
  AddLoss(verdict.loss / verdict.weight);
  if (param.display() > 0 && iteration % param.display() == 0) Display(iteration, verdict);
  if (progress_) progress_->Show(ProgressNow());
  const int64_t done = solver_->iteration();
  if (options_.check_replicas > 0 && done % options_.check_replicas == 0) CheckReplicas();
  if (options_.bucket_mb == 0 && group_.size() > 1 &&
      done == start_iteration_ + kIterationsToMeasure)
    MergeBuckets();
  const bool due = param.snapshot() > 0 && done % param.snapshot() == 0;
  if (due || verdict.snapshot > 0 || verdict.terminate > 0) TrySnapshot();
  if (verdict.terminate > 0) return TrainEnd::kTerminated;
  return verdict.stop > 0 ? TrainEnd::kStopped : TrainEnd::kDone;
}

// What was merged changes no bit of any result, only when gradients leave.
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
  observer_->Finish();
  CheckReplicas();
  const SolverParameter& param = solver_->param();
  if (param.snapshot_after_train() && last_snapshot_ != solver_->iteration()) Snapshot();
  if (progress_) progress_->Clear();
  if (end != TrainEnd::kDone) {
    if (root()) LogInfo("Optimization stopped early.");
    if (metrics_) metrics_->Flush();
    return;
  }
  const int64_t iteration = solver_->iteration();
  if (param.display() > 0 && iteration % param.display() == 0) {
    double loss[] = {solver_->TrainLoss()};
    group_.Sum(loss);
    AddLoss(loss[0] / workers());
    if (root()) LogInfo("Iteration {}, loss = {:g}", iteration, smoothed_loss_);
  }
  if (param.test_interval() > 0 && iteration % param.test_interval() == 0) TestAll();
  if (progress_) progress_->Clear();
  if (root()) LogInfo("Optimization Done.");
  if (metrics_) metrics_->Flush();
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
    const TestResult result = RunTest<T>(
        group_, stream_, net, tests_done_ * count, count,
        [&](int64_t batch, int64_t stride) {
          return solver_->TestForward(static_cast<int>(i), batch, stride);
        },
        [&](int64_t done) {
          if (!progress_) return;
          ProgressState state = ProgressNow();
          state.phase = "test";
          state.done = done;
          state.total = count;
          state.images_per_second = 0;
          progress_->Show(state);
        });
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
      if (metrics_) metrics_->Flush();
    }
    results.push_back(result);
  }
  ++tests_done_;
  return results;
}

template <typename T>
CarafeState Trainer<T>::StateNow() {
  CarafeState state;
  state.set_samples_seen(solver_->iteration() * solver_->param().iter_size() * rows_ +
                         solver_->sample_offset());
  state.set_seed(solver_->seed());
  state.set_workers(workers());
  state.set_global_batch(rows_);
  state.set_plan(fmt::format("{} {:g}\n{}", exchange(), options_.bucket_mb, algorithms_));
  state.set_weights_hash(WeightsHash(stream_, solver_->net()));
  state.set_tests_done(tests_done_);
  return state;
}

template <typename T>
void Trainer<T>::Snapshot() {
  solver_->Drain();
  last_snapshot_ = solver_->iteration();
  std::string error;
  if (root()) {
    group_.Announce("a snapshot");
    try {
      WriteSnapshot(*solver_, StateNow());
    } catch (const Error& failed) {
      error = failed.what();
    }
    group_.Announce("");
  }
  group_.Agree(error);
}

// A snapshot on the way that fails (a full disk) is reported; training goes on, and older snapshots
// are whole.
template <typename T>
bool Trainer<T>::TrySnapshot() {
  try {
    Snapshot();
    return true;
  } catch (const CommError&) {
    throw;
  } catch (const Error& error) {
    if (root())
      LogError("the snapshot of iteration {} failed: {}", solver_->iteration(), error.what());
    last_snapshot_ = -1;
    return false;
  }
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
  solver_->ThrowStepAway();
  std::string found;
  Net<T>& net = solver_->net();
  for (size_t i = 0; i < net.blobs().size() && found.empty(); ++i) {
    for (const T value : net.blobs()[i]->DataToHost(stream_)) {
      if (std::isfinite(value)) continue;
      found = fmt::format("rank {}: first in blob \"{}\"", group_.rank(), net.blob_names()[i]);
      break;
    }
  }
  std::string where;
  for (const std::string& text : group_.AllGather(found, "where the loss went bad")) {
    if (!text.empty() && where.empty()) where = text;
  }
  throw ConfigError(
      fmt::format("the loss is NaN or infinite at iteration {} ({})", iteration, where),
      "lower base_lr, use clip_gradients, or check the data; --on_nan=continue goes on regardless");
}

template class Trainer<float>;
template class Trainer<double>;

}  // namespace carafe
