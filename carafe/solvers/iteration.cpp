#include "carafe/solvers/iteration.h"

#include <cmath>

#include "carafe/base/index.h"
#include "carafe/core/row_share.h"
#include "carafe/core/trace_span.h"
#include "carafe/kernels/math.h"

namespace carafe {

template <typename T>
Iteration<T>::Iteration(const IterationSettings& settings, WorkerTeam<T>& team,
                        ParameterFlow<T>& flow)
    : settings_(settings),
      team_(team),
      flow_(flow),
      events_(static_cast<size_t>(team.size())),
      losses_(static_cast<size_t>(team.size())) {
  for (int w = 0; w < team_.size(); ++w) {
    At(events_, w).iteration = this;
    At(events_, w).worker = w;
  }
}

template <typename T>
StepVotes Iteration<T>::Run(const StepCall& call) {
  forwards_left_ = team_.size();
  team_.Run([this, &call](int worker) { Passes(call, worker); });
  // A rank that trains alone has nobody to wait for: it asks for wishes as late as possible.
  if (!settings_.several_ranks) Vote(call.hooks);
  if (call.hooks.computed) call.hooks.computed();
  const TraceSpan span(team_.trace(), "exchange", "votes");
  flow_.exchange().FinishStep();
  return flow_.exchange().AwaitVerdict();
}

// On the thread of each worker.
template <typename T>
void Iteration<T>::Passes(const StepCall& call, int worker) {
  Net<T>& net = team_.net(worker);
  double& loss = At(losses_, worker);
  loss = 0;
  for (int sub = 0; sub < settings_.iter_size; ++sub) {
    const bool last = sub == settings_.iter_size - 1;
    Pass pass = call.first_pass;
    pass.index += sub;
    RunContext run = team_.Context(worker, pass);

    // Before a layer reads a parameter: flow_.BeforeRead. Pending updates of the last step run now.
    loss += net.Forward(run, &At(events_, worker));
    if (sub == 0) {
      flow_.FinishReads(worker);  // also of parameters that no layer has read
      ClearDiffs(worker);
    }
    if (last) EndForward(call, worker);
    if (last && settings_.discard_bad_step && !std::isfinite(loss) &&
        !flow_.CanCancelAfterBackward())
      return;

    // When no more is added to a gradient, in the last pass: GradientFinal. It starts to travel, or
    // is used, while the layers below compute.
    At(events_, worker).last_pass = last;
    net.Backward(run, &At(events_, worker));
  }
}

// Among several ranks the worker that ends its last forward pass last votes for all of this rank:
// the votes travel while the backward passes compute, and need not be waited for at their end.
template <typename T>
void Iteration<T>::EndForward(const StepCall& call, int worker) {
  if (forwards_left_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    flow_.BeginUpdates(call.start);
    if (settings_.several_ranks) Vote(call.hooks);
  }
  flow_.ForwardDone(worker);
}

template <typename T>
void Iteration<T>::Vote(const StepHooks& hooks) {
  StepVotes mine = hooks.wishes ? hooks.wishes() : StepVotes();
  const StepVotes own = OwnLoss();
  mine.loss = own.loss;
  mine.weight = own.weight;
  mine.bad = own.bad;
  flow_.exchange().Vote(mine);
}

template <typename T>
StepVotes Iteration<T>::OwnLoss() const {
  StepVotes mine;
  for (int w = 0; w < team_.size(); ++w) {
    const double loss = At(losses_, w);
    const double weight = WeightOf(team_.replica(w));
    mine.loss += loss / settings_.iter_size * weight;
    mine.weight += weight;
    if (!std::isfinite(loss)) mine.bad = 1;
  }
  return mine;
}

// A worker's gradient counts by its share of the rows.
template <typename T>
void Iteration<T>::GradientFinal(int worker, int param) {
  const Replica replica = team_.replica(worker);
  const Param<T>& p = At(team_.net(worker).params(), param);
  const bool by_factors = At(team_.net(worker).layers(), p.layer)->gives_factors(p.index);
  if (!SharesAreEqual(replica) && !p.frozen() && !by_factors) {  // FactorsReady scales those
    T* gradient = p.blob->mutable_diff(team_.stream(worker));
    Scale(team_.stream(worker), p.blob->count(), static_cast<T>(WeightOf(replica)), gradient,
          gradient);
  }
  flow_.GradientFinal(worker, param);
}

// Layers add to the diffs. An update leaves zeros, unless it is kept; those of frozen parameters
// that get gradients (force_backward) are not updated.
template <typename T>
void Iteration<T>::ClearDiffs(int worker) {
  Net<T>& net = team_.net(worker);
  if (settings_.keep_updates) return net.ClearParamDiffs(team_.stream(worker));
  for (const Param<T>& p : net.params()) {
    if (p.frozen() && At(net.layers(), p.layer)->param_propagate_down(p.index))
      p.blob->ZeroDiff(team_.stream(worker));
  }
}

template <typename T>
void Iteration<T>::ApplyGradients(const StepStart& start) {
  flow_.BeginUpdates(start);
  for (int w = 0; w < team_.size(); ++w) {
    flow_.ForwardDone(w);
    for (int p = Count(team_.net(w).params()) - 1; p >= 0; --p) flow_.GradientFinal(w, p);
  }
  flow_.exchange().Vote({.weight = 1});
  flow_.exchange().FinishStep();
  flow_.exchange().AwaitVerdict();
}

template class Iteration<float>;
template class Iteration<double>;

}  // namespace carafe
