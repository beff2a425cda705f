// A training run: solver, nets, data and exchange put together; tests, display, snapshots, signals,
// files.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "carafe/comm/group.h"
#include "carafe/proto/state_messages.h"
#include "carafe/solvers/solver.h"
#include "carafe/train/metrics.h"
#include "carafe/train/net_outputs.h"
#include "carafe/train/observer.h"
#include "carafe/train/options.h"
#include "carafe/train/progress.h"
#include "carafe/train/rank_table.h"
#include "carafe/train/signals.h"
#include "carafe/train/snapshot_lock.h"
#include "carafe/train/tester.h"

namespace carafe {

enum class TrainEnd { kDone, kStopped, kTerminated };

// Made and used on every rank alike; the group outlives it.
template <typename T>
class Trainer {
 public:
  // `stream` is worker 0's; `others` are those of options.workers - 1 more on other GPUs, if any.
  Trainer(const SolverSpec& spec, const TrainOptions& options, Group& group, Stream& stream,
          const std::vector<Stream*>& others = {});
  ~Trainer();

  // Until max_iter, or until asked to stop. Throws what went wrong; the caller tells the group.
  TrainEnd Run();
  // `count` iterations with all their tests, display and snapshots.
  TrainEnd Step(int64_t count);

  Solver<T>& solver() { return *solver_; }
  const TrainingState& state() const { return state_; }  // of the last capture; see state_
  void Snapshot();                                       // on all ranks alike
  void Restore(const std::string& snapshot);             // from a .solverstate; on all ranks alike
  std::vector<TestResult> TestAll();

 private:
  void Build(const SolverSpec& spec);
  void LoadStart();  // rank 0: fillers, --weights or --snapshot; then everybody has rank 0's
  void LoadSnapshot(const std::string& snapshot);
  bool LoadNewestSnapshot();  // false: there is none that is whole
  void ShareStart();
  void OpenFiles(bool resumed);
  void PrintStart(const TrainOptions& asked);
  void PrintRanks(const std::vector<RankFacts>& ranks);
  void CheckData();
  void ScaleRate();
  TrainEnd Loop(int64_t until);
  TrainEnd OneIteration();
  StepVotes Wishes();
  void TakeVerdict(const StepVotes& verdict, int64_t iteration);
  void ShowStaleness();
  bool DueAtRoundEnd(int64_t interval, int64_t iteration) const;
  double CommWait() const;  // seconds that worker 0 has waited in the exchange
  void Display(int64_t iteration);
  void AddLoss(double loss);
  void AddOutputs(int64_t iteration, const std::vector<Score>& scores);
  void WriteOutputs();
  void StopOnNan(int64_t iteration);
  void CheckReplicas();
  void MergeBuckets();
  void FinishRun(TrainEnd end);
  void SayHowToResume() const;
  bool TrySnapshot();
  void CheckWeightsFinite();  // on all ranks alike, after Drain
  int workers() const { return group_.size() * options_.workers; }  // of all ranks
  SchemeSettings Scheme() const;
  // trainer_state.cpp
  const TrainingState& CaptureState();          // state_ with what other objects keep
  void ApplyState(const TrainingState& state);  // the opposite
  void ChooseAlgorithms();
  ProgressState ProgressNow() const;
  double DataWait() const;  // seconds that the nets have waited for data
  bool root() const { return group_.rank() == 0; }

  TrainOptions options_;  // with the values that the solver gives
  Group& group_;
  Stream& stream_;
  const std::vector<Stream*> other_streams_;
  std::unique_ptr<Observer> observer_;  // told by the solver and its nets, and by OneIteration
  std::unique_ptr<const Codec> wire_;   // null: gradients are sent as they are
  std::unique_ptr<Solver<T>> solver_;
  std::unique_ptr<SignalWatch> signals_;
  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<NetOutputs> outputs_;          // null: nobody asked for them
  std::unique_ptr<SnapshotLock> snapshot_lock_;  // of rank 0, if it writes files
  std::unique_ptr<Progress> progress_;
  std::deque<double> losses_;  // the last average_loss of them
  double smoothed_loss_ = 0;
  int64_t start_iteration_ = 0;
  // Keeps what no other object keeps: tests done, plan, loss scale, last snapshot, and fields of
  // later versions. The other fields are those of the last CaptureState or ApplyState.
  TrainingState state_;
  int64_t rows_ = 0;  // of one pass of all workers
  Timer since_display_, since_start_;
  int64_t displayed_at_ = 0;
  double data_wait_shown_ = 0;  // seconds waited until the last display
  std::string files_stem_;
};

}  // namespace carafe
