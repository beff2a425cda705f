// What a run remembers: captured for snapshots, read back, and shared with all ranks. Facts that no
// other object keeps are in state_; see solvers/training_state.h for the others.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

#include "carafe/base/log.h"
#include "carafe/solvers/snapshot.h"
#include "carafe/solvers/snapshot_keep.h"
#include "carafe/solvers/snapshot_list.h"
#include "carafe/solvers/training_state.h"
#include "carafe/train/algorithm_choice.h"
#include "carafe/train/broadcast_message.h"
#include "carafe/train/trainer.h"

namespace carafe {

template <typename T>
const TrainingState& Trainer<T>::CaptureState() {
  TrainingPlan& plan = *state_.mutable_training_plan();
  plan.set_exchange(*options_.exchange);
  plan.set_bucket_mb(options_.bucket_mb);
  state_ = Capture(*solver_, rows_, std::move(state_));
  return state_;
}

template <typename T>
void Trainer<T>::ApplyState(const TrainingState& state) {
  state_ = state;
  Apply(state, rows_, *solver_);
}

template <typename T>
void Trainer<T>::Snapshot() {
  solver_->Drain();
  solver_->KeepResiduals();
  solver_->KeepLocalHistory();
  state_.set_last_snapshot(solver_->iteration());
  solver_->WithWholeHistory([&] {
    group_.OnRoot("the snapshot", [&] {
      const Announcement announced(group_, "a snapshot");
      WriteSnapshot(*solver_, CaptureState());
      if (options_.keep > 0)
        RemoveOldSnapshots(solver_->param().snapshot_prefix(), options_.keep, options_.keep_every);
    });
  });
  solver_->residuals().Set({}, 1);  // the exchange has them
  solver_->local_history().Set({});
}

// No loss has seen the last update yet.
template <typename T>
void Trainer<T>::CheckWeightsFinite() {
  if (options_.on_nan != OnNan::kStop) return;
  group_.OnRoot("the check of the weights", [&] {
    for (const Param<T>& param : solver_->net().params()) {
      const std::vector<T> values = param.blob->DataToHost(stream_);
      if (std::ranges::all_of(values, [](T value) { return std::isfinite(value); })) continue;
      throw ConfigError(
          fmt::format("parameter {} holds NaN or infinite values after iteration {}", param.name,
                      solver_->iteration()),
          "lower base_lr, use clip_gradients, or check the data; --on_nan=continue goes on "
          "regardless");
    }
  });
}

// A periodic snapshot that fails (a full disk) is reported; training goes on, and older snapshots
// are whole.
template <typename T>
bool Trainer<T>::TrySnapshot() {
  try {
    solver_->Drain();
    CheckWeightsFinite();
    Snapshot();
    return true;
  } catch (const CommError&) {
    throw;
  } catch (const Error& error) {
    if (root())
      LogError("the snapshot of iteration {} failed: {}", solver_->iteration(), error.what());
    state_.clear_last_snapshot();
    return false;
  }
}

template <typename T>
void Trainer<T>::LoadSnapshot(const std::string& snapshot) {
  LogInfo("Restoring previous solver status from {}", snapshot);
  TrainingState state = ReadSnapshot(snapshot, *solver_);
  if (!state.has_samples_seen()) {
    LogInfo("the state holds no data position (it is not Carafe's): the data start again");
    state.set_samples_seen(0);
  }
  state.set_last_snapshot(state.iteration());
  ApplyState(state);
}

// A damaged snapshot is passed over for the next older one. One that is whole and does not fit the
// net is an error: an older one might be of another experiment.
template <typename T>
bool Trainer<T>::LoadNewestSnapshot() {
  bool damaged = false;
  std::exception_ptr refused;  // the newest one whose files are whole, but that did not load
  for (const FoundSnapshot& found : FindSnapshots(solver_->param().snapshot_prefix())) {
    bool whole = false, verified = false;
    try {
      verified = CheckSnapshotFiles(found.state).verified;
      whole = true;
      LoadSnapshot(found.state);
      if (damaged)
        LogWarning("--snapshot=auto: resuming from iteration {}, the newest snapshot that is whole",
                   found.iteration);
      return true;
    } catch (const DataError& error) {
      if (verified) throw;
      LogWarning("skipping {}: {}", found.state, error.what());
      damaged = true;
      if (whole && !refused) refused = std::current_exception();
    }
  }
  if (refused) std::rethrow_exception(refused);  // the weights may be in the net already
  return false;
}

template <typename T>
void Trainer<T>::Restore(const std::string& snapshot) {
  solver_->Drain();
  group_.OnRoot("the snapshot to resume from", [&] { LoadSnapshot(snapshot); });
  ShareStart();
  ChooseAlgorithms();
  solver_->CopyToWorkers();
  if (solver_->HistoryIsSharded()) solver_->Reconnect();  // the shards take what was restored
  solver_->RestoreResiduals();
  solver_->RestoreLocalHistory();
  start_iteration_ = displayed_at_ = solver_->iteration();
  losses_.clear();
}

template <typename T>
void Trainer<T>::ShareStart() {
  if (group_.size() == 1) return;
  TrainingState state;
  if (root()) state = CaptureState();
  BroadcastMessage(group_, &state, "the training state");
  ApplyState(state);
  const auto share = [&](Blob<T>& blob, const std::string& what) {
    std::vector<T> values = blob.DataToHost(stream_);
    group_.Broadcast(values.data(), values.size() * sizeof(T), 0, what);
    if (!root()) blob.SetData(stream_, values);
  };
  for (const Param<T>& param : solver_->net().params()) share(*param.blob, "weights " + param.name);
  if (state.iteration() > 0) {
    for (Blob<T>& blob : solver_->history()) share(blob, "the solver's history");
  }
  CheckReplicas();
}

template <typename T>
void Trainer<T>::ChooseAlgorithms() {
  TrainingPlan& plan = *state_.mutable_training_plan();
  SetConvolutionLines(MeasureForAll(group_, stream_, options_.algorithm, solver_->AllNets(),
                                    ConvolutionLines(plan)),
                      &plan);
}

template class Trainer<float>;
template class Trainer<double>;

}  // namespace carafe
