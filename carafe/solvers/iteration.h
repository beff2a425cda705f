// One step of training on this rank: the passes of all its workers, the votes, and what they hand
// to the flow of parameters. Read Run, Passes and EndForward in iteration.cpp: that is the whole
// step, overlap included.
#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "carafe/net/net.h"
#include "carafe/solvers/parameter_flow.h"
#include "carafe/solvers/worker_team.h"

namespace carafe {

// What a step asks its caller, and reports to it; either may be empty.
struct StepHooks {
  // This rank's own votes (stop, snapshot); loss, weight and bad are filled in. Called by the
  // thread of any worker: after the last forward pass, or, on a rank that trains alone, after the
  // last backward pass.
  std::function<StepVotes()> wishes;
  std::function<void()> computed;  // the backward passes of this rank have ended
};

struct IterationSettings {
  int iter_size = 1;             // passes per step
  bool discard_bad_step = true;  // a step whose loss is not finite makes no update
  bool several_ranks = false;
  bool keep_updates = false;  // diffs hold the last update, not zeros, when a step begins
};

// The arguments of one step.
struct StepCall {
  StepStart start;
  Pass first_pass;  // the first of iter_size
  const StepHooks& hooks;
};

// Made for one flow; used by the thread of worker 0. Team and flow outlive it.
template <typename T>
class Iteration {
 public:
  Iteration(const IterationSettings& settings, WorkerTeam<T>& team, ParameterFlow<T>& flow);

  // iter_size passes forward and backward of every worker, and the exchange of gradients and votes.
  // Returns the sum of all ranks' votes; whether the step counts is for the caller to decide, who
  // then goes on or calls Cancel of the flow.
  StepVotes Run(const StepCall& call);
  // A step without passes, with the gradients that the diffs hold now.
  void ApplyGradients(const StepStart& start);
  // By worker: of the last step, summed over iter_size.
  const std::vector<double>& losses() const { return losses_; }
  StepVotes OwnLoss() const;  // of the last step: this rank's votes without wishes

 private:
  // What one worker's net reports while it runs.
  struct Events final : ParamEvents<T> {
    void BeforeRead(int param) override { iteration->flow_.BeforeRead(worker, param); }
    void FactorsReady(int param, const Factors<T>& factors) override {
      iteration->flow_.FactorsReady(worker, param, factors);
    }
    void GradientFinal(int param) override {
      if (last_pass) iteration->GradientFinal(worker, param);
    }
    Iteration* iteration = nullptr;
    int worker = 0;
    bool last_pass = false;  // of iter_size
  };

  void Passes(const StepCall& call, int worker);
  void EndForward(const StepCall& call, int worker);
  void Vote(const StepHooks& hooks);
  void GradientFinal(int worker, int param);
  void ClearDiffs(int worker);

  const IterationSettings settings_;
  WorkerTeam<T>& team_;
  ParameterFlow<T>& flow_;
  std::vector<Events> events_;         // by worker
  std::vector<double> losses_;         // by worker: of the step under way, summed over iter_size
  std::atomic<int> forwards_left_{0};  // workers that have not ended their last forward pass
};

}  // namespace carafe
