// The options of a run and their tables: every flag, check, message and line of documentation comes
// from a row of options.cpp. A new option is a member here and a row there.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "carafe/base/option_table.h"
#include "carafe/exchange/server_settings.h"
#include "carafe/proto/messages.h"
#include "carafe/solvers/solver_spec.h"
#include "carafe/train/progress.h"
#include "carafe/train/signals.h"

namespace carafe {

// Options of every command that runs a net.
struct RunOptions {
  std::string gpu;                  // "", "0,1", "all", "auto", "auto-2"
  std::optional<int> threads;       // absent: the host's cores, shared by its ranks and workers
  std::string algorithm = "auto";   // of convolutions, see AlgorithmChoices
  int level = 0;                    // net state
  std::vector<std::string> stages;  // net state
};
constexpr int kMostThreads = 1024;  // of a worker

enum class LrScaling { kNone, kLinear, kSqrt };
enum class OnNan { kStop, kContinue };
enum class SumForm { kAuto, kOwners, kHalving };

// Absent values are the solver's, once resolved by WithSolver.
struct TrainOptions : RunOptions {
  std::string solver;                  // path of the prototxt
  std::string snapshot;                // resume from this .solverstate, or from "auto", the newest
  std::optional<std::string> weights;  // start from these .caffemodel files, with commas
  int64_t global_batch = 0;            // rows of all workers; 0: the file's batch for each worker
  LrScaling lr_scaling = LrScaling::kNone;
  int64_t warmup = 0;                      // iterations
  int workers = 1;                         // replicas in this process
  std::optional<std::string> exchange;     // name of a registered exchange
  std::string plan;                        // "LAYER:SCHEME,..", see LayerPlan
  std::optional<double> exchange_timeout;  // seconds; negative: forever
  std::optional<int> staleness;            // iterations
  std::optional<ServerUpdate> server_update;
  Combine combine = Combine::kMean;
  Consistency consistency = Consistency::kPush;
  double bandwidth_mbps = 0;  // 0: no limit
  SendOrder send_order = SendOrder::kFifo;
  std::optional<int> local_steps;  // of a round
  double outer_lr = 1, outer_momentum = 0;
  int tree_branches = 2;
  SumForm sum = SumForm::kAuto;
  std::optional<std::string> wire;  // of gradients between ranks, see MakeWireCodec
  double message_kb = 0;            // 0: by measurement
  double bucket_mb = 0;             // 0: by measurement, after some iterations
  std::optional<bool> overlap;
  std::optional<bool> sync_batch_norm;
  bool pin = false;
  int check_replicas = 100;   // iterations between comparisons; 0: never
  double comm_timeout = 300;  // seconds
  OnNan on_nan = OnNan::kStop;
  SignalEffect sigint_effect = SignalEffect::kStop;
  SignalEffect sighup_effect = SignalEffect::kSnapshot;
  int64_t keep = 0;        // newest snapshots that stay; 0: all
  int64_t keep_every = 0;  // snapshots of multiples of this iteration stay, too; 0: none
  std::string run_dir;     // for train.log and metrics.csv; "": beside the snapshots
  ProgressMode progress = ProgressMode::kAuto;
  std::string trace, trace_iterations, stats;
  std::string stats_path, net_outputs;  // of PMLS-Caffe, see StatsYaml and NetOutputs
  bool quiet = false;                   // log lines go to the file only

  // Not in the table: for callers that are programs.
  bool write_files = true;                 // off: no log, no metrics
  bool watch_signals = true;               // off where ranks are threads
  bool keep_updates = false;               // see SolverOptions
  bool share_memory = true;                // see SolverOptions
  std::function<void()> before_iteration;  // may throw, which ends the run
};

const OptionTable<RunOptions>& RunTable();
const OptionTable<TrainOptions>& TrainTable();
std::vector<OptionInfo> TrainInfos();  // of TrainTable, with the defaults of the solver's fields

// The options of a program without flags: defaults, and what the environment says.
RunOptions RunOptionsFromEnvironment();

// The one place where options that a solver file may hold are decided: flag (already in `options`),
// else the solver's field, else its default. Checks all values. Throws ConfigError.
TrainOptions WithSolver(TrainOptions options, const SolverSpec& spec);
// For the log: the options of a run that are not the defaults, with their source where that is not
// the caller. `resolved` is WithSolver(asked, ...).
std::string DescribeOptions(const TrainOptions& asked, const TrainOptions& resolved);

// The state that selects the layers of a net: `phase` with the options' level and stages.
NetState StateOf(Phase phase, const RunOptions& options);

}  // namespace carafe
