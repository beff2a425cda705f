// A training run: solver, nets, data and exchange put together; tests, display, snapshots, signals,
// files.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "carafe/comm/group.h"
#include "carafe/solvers/solver.h"
#include "carafe/train/data_wait.h"
#include "carafe/train/metrics.h"
#include "carafe/train/observer.h"
#include "carafe/train/progress.h"
#include "carafe/train/rank_table.h"
#include "carafe/train/signals.h"
#include "carafe/train/tester.h"

namespace carafe {

struct TrainOptions {
  std::string weights;   // start from these, one file or several with commas
  std::string snapshot;  // resume from this .solverstate; "auto": the newest whole one, if any
  int level = 0;
  std::vector<std::string> stages;
  int64_t global_batch = 0;         // rows of all workers together; 0: the file's batch for each
  std::string lr_scaling = "none";  // none, linear, sqrt: by the growth of the batch
  int64_t warmup = 0;               // iterations
  int workers = 1;                  // replicas in this process, each with the stream's threads
  std::string exchange;             // "": the solver's
  double bucket_mb = 0;  // gradients that travel together; 0: by measurement, after some iterations
  std::optional<bool> overlap;             // absent: the solver's
  std::optional<bool> sync_batch_norm;     // absent: the solver's
  std::optional<double> exchange_timeout;  // absent: the solver's; it becomes scheme.timeout
  SchemeSettings scheme;
  int check_replicas = 100;     // iterations between comparisons; 0: never
  std::string on_nan = "stop";  // stop, continue
  std::string sigint_effect = "stop", sighup_effect = "snapshot";
  std::string run_dir;  // for train.log and metrics.csv; "": beside the snapshots
  std::string progress = "none";
  bool pin = false;                        // the ranks have been pinned by PinRanks
  bool quiet = false;                      // log lines go to the file only
  bool write_files = true;                 // off in tests: no log, no metrics
  bool watch_signals = true;               // off where ranks are threads
  bool keep_updates = false;               // see SolverOptions
  bool share_memory = true;                // see SolverOptions
  ObserveOptions observe;                  // --trace, --stats
  std::function<void()> before_iteration;  // may throw: then the run ends with that
};

enum class TrainEnd { kDone, kStopped, kTerminated };

// Made and used on every rank alike; the group outlives it.
template <typename T>
class Trainer {
 public:
  Trainer(const SolverSpec& spec, const TrainOptions& options, Group& group, Stream& stream);
  ~Trainer();

  // Until max_iter, or until asked to stop. Throws what went wrong; the caller tells the group.
  TrainEnd Run();
  // `count` iterations with all their tests, display and snapshots.
  TrainEnd Step(int64_t count);

  Solver<T>& solver() { return *solver_; }
  void Snapshot();                            // on all ranks alike
  void Restore(const std::string& snapshot);  // from a .solverstate; on all ranks alike
  std::vector<TestResult> TestAll();

 private:
  void Build(const SolverSpec& spec);
  void LoadStart();  // rank 0: fillers, --weights or --snapshot; then everybody has rank 0's
  void LoadSnapshot(const std::string& snapshot);
  void ShareStart();
  void OpenFiles(bool resumed);
  void PrintStart();
  void PrintRanks(const std::vector<RankFacts>& ranks);
  void CheckData();
  void ScaleRate();
  TrainEnd Loop(int64_t until);
  TrainEnd OneIteration();
  void Display(int64_t iteration, const StepVotes& verdict);
  void AddLoss(double loss);
  void StopOnNan(int64_t iteration);
  void CheckReplicas();
  void MergeBuckets();
  void FinishRun(TrainEnd end);
  bool TrySnapshot();
  int64_t FileBatch() const;
  int workers() const { return group_.size() * options_.workers; }  // of all ranks
  std::string exchange() const;
  SchemeSettings Scheme() const;
  CarafeState StateNow();
  ProgressState ProgressNow() const;
  bool root() const { return group_.rank() == 0; }

  const TrainOptions options_;
  Group& group_;
  Stream& stream_;
  DataWait data_wait_;
  std::unique_ptr<Observer> observer_;  // told by the solver and its nets, and by OneIteration
  std::unique_ptr<Solver<T>> solver_;
  std::unique_ptr<SignalWatch> signals_;
  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<Progress> progress_;
  std::deque<double> losses_;  // the last average_loss of them
  double smoothed_loss_ = 0;
  int64_t start_iteration_ = 0;
  int64_t tests_done_ = 0;
  std::string algorithms_;  // by measurement: one line per convolution and direction
  int64_t last_snapshot_ = -1;
  int64_t rows_ = 0;  // of one pass of all workers
  Timer since_display_, since_start_;
  int64_t displayed_at_ = 0;
  double data_wait_shown_ = 0;  // seconds waited until the last display
  std::string files_stem_;
};

}  // namespace carafe
