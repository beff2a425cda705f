// How gradients become new values of the parameters, and when. Iteration makes these calls in every
// step; w is a worker of this rank, p a parameter of the net:
//
//   forward    BeforeRead(w, p)      before a layer of w reads p: returns when p has the updates
//                                    that this step must see
//              FinishReads(w)        after the first forward pass of w: so have all other
//              parameters ForwardDone(w)        after the last forward pass of w
//   votes      BeginUpdates(step)    once, when all workers have ended their last forward pass: all
//                                    updates from here on are those of this step
//   backward   FactorsReady(w, p, f) in every backward pass of w, where the exchange wants factors
//              GradientFinal(w, p)   in the last backward pass of w: p's gradient is complete
//   end        Cancel()              once, if the step is to be discarded: it makes no update
//   borders    Drain()               before a test, a snapshot or the end: no update is pending
//
// Where the update of step i runs:
//
//   UpdateInBackward   in GradientFinal(p) of step i. One worker that trains alone.
//   UpdateWhenRead     in BeforeRead(p) of step i + 1, at the latest. Everybody else: the gradients
//                      go through an Exchange, and their sums arrive while others compute.
//
// A strategy that owns parameters (the stale server: values carry a clock, and a forward pass may
// read one that is up to s clocks old) is one more Exchange behind UpdateWhenRead: AwaitValue waits
// until its copy of p has clock i - s at least, and the owner of a shard calls
// Updater::UpdateSlice on its elements and its history, with the numbers of the clock's iteration,
// instead of ExchangeSetup::update. If what a worker offers depends on its own updates
// (each rank runs the rule and pushes the change), it is one more ParameterFlow beside these two.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/exchange/exchange.h"
#include "carafe/layers/layer.h"

namespace carafe {

// What is known of a step before its gradients are.
struct StepStart {
  int64_t iteration = 0;
  double rate = 0;  // learning rate
  // Unless null: called once, before the first update of this step, when the gradients of all
  // workers are there; the diffs then hold their mean and may be changed. By the thread that
  // calls Drain, which must follow at the end of the step. Outlives the step.
  const std::function<void()>* gradients_ready = nullptr;
};

// BeforeRead, FinishReads, ForwardDone, FactorsReady and GradientFinal are called by the threads of
// the workers, each for itself; BeginUpdates by any one of them; the rest by the thread of worker 0
// while the others rest. Replaced between steps only.
template <typename T>
class ParameterFlow {
 public:
  virtual ~ParameterFlow() = default;
  virtual void BeforeRead(int worker, int param) = 0;
  virtual void FinishReads(int worker) = 0;
  virtual void ForwardDone(int worker) = 0;
  virtual void BeginUpdates(const StepStart& step) = 0;
  // Only after Net::RequestFactors, which a flow calls if it takes them.
  virtual void FactorsReady(int /*worker*/, int /*param*/, const Factors<T>& /*factors*/) {
    throw InternalError("factors were requested, but nobody takes them");
  }
  virtual void GradientFinal(int worker, int param) = 0;
  virtual void Cancel() = 0;
  virtual void Drain() = 0;
  // Whether Cancel can still discard a step after its backward pass. If not, the pass must not run.
  virtual bool CanCancelAfterBackward() const = 0;
  // Votes travel through it even where no gradient does.
  virtual Exchange<T>& exchange() = 0;
  // What else does.
  virtual const std::vector<ParamInfo<T>>& exchanged() const = 0;
  // Whether the updater's history lies in shards of the ranks, and not in Updater::history().
  virtual bool HistoryIsSharded() const { return false; }
  // A collective call after Drain: Updater::history() of rank `root` (-1: of every rank) becomes
  // whole. The shards go on without it.
  virtual void GatherHistory(int /*root*/) {}
  virtual void ReleaseHistory() {}  // what GatherHistory has made
};

}  // namespace carafe
