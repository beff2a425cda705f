// The iteration: passes, gradients handed to the exchange, updates, and what a snapshot must hold.
// Display, tests, files and signals are the trainer's business (train/).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "carafe/core/run_context.h"
#include "carafe/exchange/exchange.h"
#include "carafe/net/net.h"
#include "carafe/solvers/learning_rate.h"
#include "carafe/solvers/solver_spec.h"
#include "carafe/solvers/update_rule.h"
#include "carafe/solvers/worker_team.h"

namespace carafe {

struct ConnectOptions {
  size_t bucket_bytes = size_t{4} << 20;
  std::vector<int> bucket_sizes = {};  // instead, see ExchangeSetup
  bool overlap = true;
  SchemeSettings scheme = {};
};

struct SolverOptions {
  uint64_t seed = 1;
  Replica replica;  // worker 0 of this rank among all workers of all ranks
  int workers = 1;  // of this rank; the others' indices follow
  int level = 0;    // net state from the command line
  std::vector<std::string> stages;
  Trace* trace = nullptr;  // with several workers: told by all their threads
  bool sync_batch_norm = false;
  bool share_memory = false;  // blobs of all nets use memory again (Net::ShareMemory), so that
                              // nobody can look at them between passes, but for outputs; nor at
                              // gradients of parameters, which one worker uses at once
  bool keep_updates = false;  // after a step the parameters' diffs hold what was subtracted from
                              // them, as in Caffe, and not zeros; snapshot_diff asks for it too
};

// Called in every Step by the thread that runs it: before the first pass, and when the gradients of
// all workers are there. The diffs then hold their mean (summed over iter_size), may be read and
// changed, and are about to be used.
struct SolverCallback {
  std::function<void()> on_start;
  std::function<void()> on_gradients_ready;
};

// What a Step asks and tells; either may be empty.
struct StepHooks {
  // This rank's own votes (stop, snapshot); loss, weight and bad are filled in. Asked by the thread
  // of any worker: after the last forward pass, or, on a rank that trains alone, the last backward.
  std::function<StepVotes()> wishes;
  std::function<void()> computed;  // the backward passes of this rank have ended
};

// One rank's share of the training: one worker, or several that share the parameters. Used by one
// thread, which is also worker 0's.
template <typename T>
class Solver {
 public:
  // Builds and fills the train net, and builds the test nets, which share its parameters.
  Solver(const SolverSpec& spec, Stream& stream, const SolverOptions& options);

  // Everything that moves gradients and says when to update. Must be called once, before the first
  // Step; an exchange of one worker is MakeExchange("allreduce", ...) on a Group of one.
  void Connect(const std::string& exchange, Group& group, const ConnectOptions& options);

  // Connects anew with the buckets that suit the measured cost of a sum and the last Step's
  // backward pass; returns that cost and their number. On every rank alike, between Steps.
  struct Merged {
    SumCost cost;
    size_t buckets = 0;
    size_t message_bytes = 0;
  };
  Merged MergeBuckets();
  void Disconnect();  // the group is about to end; no Step after that
  // On every worker alike. From now on nothing of the next step hides the end of this one.
  void AddCallback(SolverCallback callback);

  // iter_size passes forward and backward, then the exchange of gradients and votes. Updates run
  // when the next reader asks for a parameter, or in Drain, or already here (updates_early).
  // Returns the verdict of all workers: the mean loss is verdict.loss / verdict.weight.
  StepVotes Step(const StepHooks& hooks = {});
  void Drain();  // all updates of the last Step are done: weights are those of iteration()
  // One update with the gradients that the diffs hold now, their mean over all workers; every
  // worker calls it. iteration() stays.
  void ApplyUpdate();
  void ThrowStepAway();  // after a bad verdict: no update happens, iteration() goes back by one

  // One forward pass of a test net on test batch `batch` (stride: how far this worker's next one
  // lies). Returns the loss.
  double TestForward(int test_net, int64_t batch, int64_t stride);

  int64_t iteration() const { return iteration_; }  // updates done or under way
  void set_iteration(int64_t iteration) { iteration_ = iteration; }
  double rate() const { return rate_; }  // of the last Step
  double PeekRate();                     // of the next Step
  // One more forward pass of the train nets, without an update: the sum of this rank's workers'
  // losses, each by its share of the rows.
  double TrainLoss();
  const SolverSpec& spec() const { return spec_; }
  const SolverParameter& param() const { return spec_.param; }
  Net<T>& net() { return *net_; }
  std::vector<std::unique_ptr<Net<T>>>& test_nets() { return test_nets_; }
  std::vector<Net<T>*> AllNets();  // of every worker, worker 0's first, then the test nets
  // What Forward writes on worker 0 becomes that of all workers of this rank: after the net was
  // loaded from outside. Connect does it too.
  void CopyRunningToWorkers();
  Stream& stream() { return stream_; }
  uint64_t seed() const { return options_.seed; }
  void set_seed(uint64_t seed) { options_.seed = seed; }
  // Added to n * G, the first record of pass n: 0 but after a resume with another global batch.
  void set_sample_offset(int64_t offset) { sample_offset_ = offset; }
  int64_t sample_offset() const { return sample_offset_; }
  const Replica& replica() const { return options_.replica; }
  int workers() const { return options_.workers; }
  LearningRate& learning_rate() { return learning_rate_; }
  Exchange<T>* exchange() { return exchange_.get(); }
  bool updates_early() const { return early_; }  // within the backward pass; set by Connect
  // history()[s * params + p]: slot s of parameter p, in the order of .solverstate.
  std::vector<Blob<T>>& history() { return history_; }

 private:
  // What one worker's net tells while it runs.
  struct Events final : ParamEvents {
    void BeforeRead(int param) override { solver->BeforeRead(worker, param); }
    void GradientFinal(int param) override { solver->GradientFinal(worker, param, announce); }
    Solver* solver = nullptr;
    int worker = 0;
    bool announce = false;  // in the last of iter_size passes
  };

  void BeforeRead(int worker, int param);
  void GradientFinal(int worker, int param, bool announce);
  std::vector<ParamInfo<T>> ParamInfos();
  void Passes(int worker);
  void CastVotes();
  void ListExchanged();
  carafe::Step<T> StepOf(int param);
  void Update(int param);
  void BeginUpdates();
  // early_updates.cpp
  bool CanUpdateEarly() const;
  bool GetsGradient(const Param<T>& param) const;
  void ChooseWhenToUpdate();
  void BeginEarlyUpdates(double loss);
  void UpdateEarly(int param);
  void UpdatePart(Stream& stream, int param, int64_t first, int64_t count, T* gradient);
  void UpdateFrozen();
  T ClipScale();
  void CollectRunning(int worker);
  void HandOutRunning();
  Replica ReplicaOf(int worker) const;
  double WeightOf(const Replica& replica) const;
  RunContext Context(int worker, int64_t pass, int64_t stride);
  void FinishUpdates();
  void ShareMemory();
  void TellGradientsReady();
  bool keep_updates() const { return options_.keep_updates || param().snapshot_diff(); }

  const SolverSpec spec_;
  Stream& stream_;
  SolverOptions options_;
  std::unique_ptr<Net<T>> net_;
  std::vector<std::unique_ptr<Net<T>>> test_nets_;
  std::unique_ptr<UpdateRule<T>> rule_;
  LearningRate learning_rate_;
  std::vector<Blob<T>> history_;
  std::unique_ptr<WorkerTeam<T>> team_;
  std::vector<Events> events_;         // by worker
  std::vector<double> losses_;         // by worker: of the step under way, summed over iter_size
  std::atomic<int> forwards_left_{0};  // workers that have not ended their last forward pass
  const StepHooks* hooks_ = nullptr;   // during the passes of a step
  std::vector<int> exchanged_;         // exchange index -> param
  std::vector<int> exchange_of_;       // param -> exchange index, or -1 for frozen ones
  // What Forward writes on each worker (BatchNorm's running statistics) becomes the mean over all,
  // so that the replicas stay equal: it travels as one more parameter.
  std::vector<int> running_;                    // params
  std::vector<std::vector<T>> running_values_;  // by worker, one after the other
  std::vector<T> running_mean_;
  int running_index_ = -1;  // exchange index, or -1 if nothing is averaged
  Group* group_ = nullptr;
  std::unique_ptr<TeamSum> team_sum_;
  std::unique_ptr<Exchange<T>> exchange_;
  std::string exchange_name_;  // what Connect was given
  ConnectOptions connect_;
  std::vector<SolverCallback> callbacks_;
  bool callbacks_due_ = false;  // on_gradients_ready is still to be called for this step
  bool means_ready_ = false;    // the diffs hold means already, not sums
  bool early_ = false;          // updates run within the backward pass (early_updates.cpp)
  bool loss_was_bad_ = false;   // never again early: steps may be thrown away
  std::vector<bool> in_parts_;  // by param: updated part by part, by its layer
  int64_t iteration_ = 0;
  int64_t sample_offset_ = 0;
  double next_rate_ = 0;          // of the Step under way
  double rate_ = 0;               // of the updates under way, or last
  int64_t update_iteration_ = 0;  // the same
  bool clip_known_ = false;       // clip_scale_ is that of the step under way
  bool frozen_due_ = false;       // UpdateFrozen is still to come for the last step
  std::mutex clip_mutex_;  // workers update different parameters at once; guards the clip_ above
  T clip_scale_ = 1;
};

// This worker's rows of a pass with `global` rows in all: slots j < global with j mod count ==
// index.
int64_t RowsOf(const Replica& replica, int64_t global);

}  // namespace carafe
