// The training of one rank: its nets, workers, updates and iterations, and what a snapshot must
// hold. Display, tests, files and signals are the trainer's business (train/).
//
// A step is in iteration.cpp, the update in updater.cpp; when it runs: parameter_flow.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "carafe/net/net.h"
#include "carafe/solvers/flow_setup.h"
#include "carafe/solvers/iteration.h"
#include "carafe/solvers/learning_rate.h"
#include "carafe/solvers/local_history.h"
#include "carafe/solvers/residuals.h"
#include "carafe/solvers/running_statistics.h"
#include "carafe/solvers/solver_spec.h"
#include "carafe/solvers/updater.h"
#include "carafe/solvers/worker_team.h"

namespace carafe {

// What a step does whose loss is NaN or infinite on some worker.
enum class BadLoss {
  kDiscardStep,  // nothing is updated, iteration() stays
  kUpdate,       // as with any other loss
};

struct SolverOptions {
  uint64_t seed = 1;
  Replica replica;                          // worker 0 of this rank among all workers of all ranks
  int workers = 1;                          // of this rank; the others' indices follow
  std::vector<Stream*> other_streams = {};  // see TeamSettings
  int level = 0;                            // net state from the command line
  std::vector<std::string> stages;
  AlgorithmChoices algorithms;  // of all nets
  Trace* trace = nullptr;       // with several workers: used by all their threads
  bool sync_batch_norm = false;
  bool share_memory = false;  // blobs of all nets use memory again (Net::ShareMemory), so that
                              // nobody can look at them between passes, except for outputs; nor at
                              // gradients of parameters, which one worker uses at once
  bool keep_updates = false;  // after a step the parameters' diffs hold what was subtracted from
                              // them, as in Caffe, and not zeros; snapshot_diff asks for it too
  BadLoss bad_loss = BadLoss::kDiscardStep;
};

// Called in every Step by the thread that runs it: before the first pass, and when the gradients of
// all workers are there. The diffs then hold their mean (summed over iter_size), may be read and
// changed, and are about to be used. iteration() is that of the step in both.
struct SolverCallback {
  std::function<void()> on_start;
  std::function<void()> on_gradients_ready;
};

// One rank's share of the training: one worker, or several that share the parameters. Used by one
// thread, which is also worker 0's.
template <typename T>
class Solver {
 public:
  // Builds and fills the train net, and builds the test nets, which share its parameters.
  Solver(const SolverSpec& spec, Stream& stream, const SolverOptions& options);

  // Chooses the flow of parameters. Must be called once, before the first Step; one worker that
  // trains alone takes any exchange, on a Group of one. The group outlives the solver, or ends
  // after Disconnect.
  void Connect(const std::string& exchange, Group& group, const ConnectOptions& options);

  // Connects again with the buckets that suit the measured cost of a sum and the last Step's
  // backward pass; returns that cost and their number. On every rank alike, between Steps.
  struct Merged {
    SumCost cost;
    size_t buckets = 0;
    size_t message_bytes = 0;
  };
  Merged MergeBuckets();
  void Disconnect();  // the group is about to end; no Step after that
  // Connects again as before, on every rank alike: shards of the ranks take the values and the
  // history that this object has now.
  void Reconnect();

  // What the codec of the connection owes (residuals.h), as a snapshot keeps it. Collective calls:
  // Keep after Drain; Restore gives the exchange what was kept or read, or nothing.
  void KeepResiduals();
  void RestoreResiduals();
  Residuals<T>& residuals() { return residuals_; }
  // The same of what ranks keep apart in rounds of local steps (local_history.h).
  void KeepLocalHistory();
  void RestoreLocalHistory();
  LocalHistory<T>& local_history() { return local_history_; }
  // Steps after which all ranks have the same values: at multiples of it. Drain ends a round early.
  int round_steps() const { return std::max(connect_.local_steps, 1); }

  // On every worker alike, between Steps. From now on nothing of the next step hides the end of
  // this one.
  void AddCallback(SolverCallback callback);

  // One iteration. Returns the votes of all ranks, summed: the mean loss is loss / weight. If some
  // loss was bad and such steps are discarded, nothing but the running statistics has changed.
  // Pending updates of this step run in the next one, or in Drain (parameter_flow.h).
  StepVotes Step(const StepHooks& hooks = {});
  void Drain();  // all updates of the last Step are done: weights are those of iteration()
  // Steps by which the verdicts of Step lag behind: those of the first ones have no votes.
  int staleness() const { return flow_->exchange().staleness(); }
  // After Drain: the verdicts that Step has not returned yet; it will not return them.
  std::vector<StepVotes> TakeVerdicts() { return flow_->exchange().TakeVerdicts(); }
  // This rank's own loss in the last Step: to be added over ranks, and divided by the sum of
  // weights.
  StepVotes OwnLoss() const { return step_->OwnLoss(); }
  // One update with the gradients that the diffs hold now, their mean over all workers; every
  // worker calls it. iteration() stays.
  void ApplyUpdate();

  // After a step that was discarded, on every rank alike: where the loss of the first worker of
  // this rank that has a bad one became so ("first in blob ..", see net/bad_blob.h); "" if all
  // losses are finite.
  std::string FindBadBlob();

  // One forward pass of a test net on test batch `batch` (stride: how far this worker's next one
  // lies). Returns the loss.
  double TestForward(int test_net, int64_t batch, int64_t stride);
  // One more forward pass of the train nets, without an update: the sum of this rank's workers'
  // losses, each by its share of the rows.
  double TrainLoss();

  int64_t iteration() const { return iteration_; }  // updates done or pending
  void set_iteration(int64_t iteration) { iteration_ = iteration; }
  double rate() const { return rate_; }  // of the last Step
  double PeekRate() const;               // of the next Step
  const SolverSpec& spec() const { return spec_; }
  const SolverParameter& param() const { return spec_.param; }
  Net<T>& net() { return *net_; }
  std::vector<std::unique_ptr<Net<T>>>& test_nets() { return test_nets_; }
  std::vector<Net<T>*> AllNets();  // of every worker, worker 0's first, then the test nets
  // What worker 0 has becomes that of all workers of this rank: after the net was loaded from
  // outside. Connect does it too.
  void CopyToWorkers();
  Stream& stream() { return stream_; }
  uint64_t seed() const { return options_.seed; }
  void set_seed(uint64_t seed) { options_.seed = seed; }
  // Added to n * G, the first record of pass n: 0 except after a resume with another global batch.
  void set_sample_offset(int64_t offset) { sample_offset_ = offset; }
  int64_t sample_offset() const { return sample_offset_; }
  const Replica& replica() const { return options_.replica; }
  WorkerTeam<T>& team() { return *team_; }
  LearningRate& learning_rate() { return learning_rate_; }
  ExchangeStats exchange_stats() const { return flow_->exchange().stats(); }
  std::vector<int64_t> staleness_seen() const { return flow_->exchange().staleness_seen(); }
  // Whether this parameter is exchanged by factors; false while not connected.
  bool exchanges_factors(int param) const;
  const FactorRows& factor_rows() const { return factor_rows_; }
  bool updates_in_backward() const { return !flow_->CanCancelAfterBackward(); }
  // history()[s * params + p]: slot s of parameter p, in the order of .solverstate.
  // Where HistoryIsSharded, it is whole inside WithWholeHistory and while not connected.
  std::vector<Blob<T>>& history() { return updater_->history(); }
  bool HistoryIsSharded() const { return flow_ && flow_->HistoryIsSharded(); }
  // A collective call after Drain: runs `body` on every rank, while history() is whole on rank 0.
  void WithWholeHistory(const std::function<void()>& body);

 private:
  bool CanUpdateInBackward() const;
  // Nobody has the gradients, or the whole updates, of all workers.
  bool HidesGradients() const { return HistoryIsSharded() || connect_.local_steps > 0; }
  void ExchangeDensely();
  void ShareMemory();
  Pass PassAt(int64_t index, int64_t stride) const;

  const SolverSpec spec_;
  Stream& stream_;
  SolverOptions options_;
  std::unique_ptr<Net<T>> net_;
  std::vector<std::unique_ptr<Net<T>>> test_nets_;
  std::unique_ptr<WorkerTeam<T>> team_;
  FactorRows factor_rows_;  // of the nets as they were built
  std::unique_ptr<RunningStatistics<T>> running_;
  std::unique_ptr<Updater<T>> updater_;
  LearningRate learning_rate_;
  Residuals<T> residuals_;
  LocalHistory<T> local_history_;
  std::vector<SolverCallback> callbacks_;
  const std::function<void()> gradients_ready_;  // calls all of them
  Group* group_ = nullptr;                       // as Connect was given it; so are the next two
  std::string exchange_;
  ConnectOptions connect_;
  std::unique_ptr<ParameterFlow<T>> flow_;  // null while not connected, as the next
  std::unique_ptr<Iteration<T>> step_;
  int64_t iteration_ = 0;
  int64_t sample_offset_ = 0;
  double rate_ = 0;
};

}  // namespace carafe
