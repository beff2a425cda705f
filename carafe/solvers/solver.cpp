#include "carafe/solvers/solver.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>
#include <utility>

#include "carafe/base/index.h"
#include "carafe/base/log.h"
#include "carafe/core/row_share.h"
#include "carafe/net/bad_blob.h"
#include "carafe/solvers/update_in_backward.h"
#include "carafe/solvers/update_when_read.h"

namespace carafe {

namespace {

ConfigError UnseenGradients(const std::string& exchange) {
  return ConfigError(fmt::format("callbacks see the gradients of all parameters, which no rank has "
                                 "with --exchange={}",
                                 exchange),
                     "remove the callbacks, or use --exchange=allreduce");
}

}  // namespace

template <typename T>
Solver<T>::Solver(const SolverSpec& spec, Stream& stream, const SolverOptions& options)
    : spec_(spec),
      stream_(stream),
      options_(options),
      learning_rate_(spec.param, spec.place),
      gradients_ready_([this] {
        for (const SolverCallback& callback : callbacks_) callback.on_gradients_ready();
      }) {
  options_.keep_updates |= param().snapshot_diff();
  const SolverNet train = TrainNetOf(spec_, options.level, options.stages);
  net_ = std::make_unique<Net<T>>(train.spec, train.state, options_.algorithms);
  for (const SolverNet& test : TestNetsOf(spec_, options.level, options.stages)) {
    test_nets_.push_back(std::make_unique<Net<T>>(test.spec, test.state, options_.algorithms));
  }
  net_->Initialise(stream_, options_.seed);
  for (auto& test : test_nets_) {
    test->Initialise(stream_, options_.seed);
    test->ShareParamsWith(*net_);
  }
  updater_ = std::make_unique<Updater<T>>(param(), *net_,
                                          UpdaterSettings{.workers = options_.replica.count,
                                                          .keep_updates = options_.keep_updates,
                                                          .trace = options_.trace});
  team_ = std::make_unique<WorkerTeam<T>>(TeamSettings{.workers = options_.workers,
                                                       .replica = options_.replica,
                                                       .sync_batch_norm = options_.sync_batch_norm,
                                                       .trace = options_.trace,
                                                       .other_streams = options_.other_streams},
                                          *net_, stream_, [&](Stream& of_worker) {
                                            auto twin = std::make_unique<Net<T>>(
                                                train.spec, train.state, options_.algorithms);
                                            twin->Initialise(of_worker, options_.seed);
                                            if (&of_worker.device() == &stream_.device())
                                              twin->ShareLearnedParamsWith(*net_);
                                            return twin;
                                          });
  factor_rows_ = FactorRowsOfStep(*team_, param().iter_size());
  running_ = std::make_unique<RunningStatistics<T>>(*team_);
  if (options_.share_memory) ShareMemory();
}

// Workers run at the same time; test nets run when the first worker's net does not.
template <typename T>
void Solver<T>::ShareMemory() {
  const auto pool = std::make_shared<MemoryPool>();
  for (int w = 0; w < team_->size(); ++w) {
    team_->net(w).ShareMemory(MemorySharing::kTraining,
                              w == 0 ? pool : std::make_shared<MemoryPool>());
  }
  for (auto& test : test_nets_) test->ShareMemory(MemorySharing::kForward, pool);
}

// Not where gradients are summed over passes or workers, or used together (clipping), or seen by
// others before or after the update.
template <typename T>
bool Solver<T>::CanUpdateInBackward() const {
  return options_.share_memory && options_.replica.count == 1 && param().iter_size() == 1 &&
         !updater_->clips() && callbacks_.empty() && !options_.keep_updates &&
         connect_.local_steps == 0;
}

template <typename T>
void Solver<T>::Connect(const std::string& exchange, Group& group, const ConnectOptions& options) {
  if (flow_) {
    KeepResiduals();
    KeepLocalHistory();
  }
  step_.reset();  // of an earlier call, as is the flow: first the old one ends
  flow_.reset();
  group_ = &group;
  exchange_ = exchange;
  connect_ = options;
  team_->Connect(group);
  CopyToWorkers();
  updater_->set_workers(connect_.local_steps > 0 ? team_->size() : options_.replica.count);
  const FlowSetup<T> setup{.team = *team_,
                           .updater = *updater_,
                           .running = *running_,
                           .group = group,
                           .exchange = exchange_,
                           .options = connect_,
                           .factor_rows = factor_rows_,
                           .gradients_are_seen = !callbacks_.empty()};
  if (CanUpdateInBackward()) {
    flow_ = std::make_unique<UpdateInBackward<T>>(setup);
  } else {
    flow_ = std::make_unique<UpdateWhenRead<T>>(setup);
  }
  if (HidesGradients() && !callbacks_.empty()) throw UnseenGradients(exchange_);
  if (HidesGradients() && param().snapshot_diff())
    throw ConfigError(spec_.place.Find("snapshot_diff"),
                      fmt::format("snapshot_diff stores the updates of all parameters, which no "
                                  "rank has with --exchange={}",
                                  exchange_),
                      "remove snapshot_diff, or use --exchange=allreduce");
  step_ = std::make_unique<Iteration<T>>(
      IterationSettings{.iter_size = param().iter_size(),
                        .discard_bad_step = options_.bad_loss == BadLoss::kDiscardStep,
                        .several_ranks = group.size() > 1,
                        .keep_updates = options_.keep_updates},
      *team_, *flow_);
  RestoreResiduals();
  RestoreLocalHistory();
}

template <typename T>
void Solver<T>::KeepLocalHistory() {
  if (connect_.local_steps > 0)
    local_history_.Gather(flow_->exchange(), *group_, stream_, updater_->history());
}

template <typename T>
void Solver<T>::RestoreLocalHistory() {
  if (connect_.local_steps > 0)
    return local_history_.Restore(flow_->exchange(), *group_, stream_, updater_->history());
  if (!local_history_.tensors().empty())
    LogInfo("the snapshot is of ranks with histories of their own: this run takes rank 0's");
  local_history_.Set({});
}

template <typename T>
void Solver<T>::CopyToWorkers() {
  running_->CopyFromFirstWorker();
  team_->CopyValues();
}

template <typename T>
void Solver<T>::KeepResiduals() {
  if (connect_.codec) residuals_.Gather(flow_->exchange(), *group_, options_.replica.count);
}

template <typename T>
void Solver<T>::RestoreResiduals() {
  if (connect_.codec && group_->size() > 1)
    return residuals_.Restore(flow_->exchange(), *group_, options_.replica.count);
  if (!residuals_.tensors().empty())
    LogInfo("the snapshot's residuals are dropped: this run sends no encoded gradients");
  residuals_.Set({}, 1);
}

template <typename T>
typename Solver<T>::Merged Solver<T>::MergeBuckets() {
  Drain();
  const std::vector<ParamInfo<T>> params = flow_->exchanged();
  const std::vector<double> ready = flow_->exchange().ready_times();
  KeepResiduals();
  step_.reset();
  flow_.reset();  // the measurement uses its tags
  Merged merged{.cost = MeasureSumCost(*group_, exchange_, connect_.scheme)};
  ConnectOptions options = connect_;
  if (options.scheme.message_bytes == 0)
    options.scheme.message_bytes = MessageBytesFor(merged.cost);
  merged.message_bytes = options.scheme.message_bytes;
  options.bucket_sizes = PlanBuckets<T>(*group_, params, ready, merged.cost);
  merged.buckets = options.bucket_sizes.size();
  Connect(std::string(exchange_), *group_, options);
  return merged;
}

template <typename T>
void Solver<T>::Reconnect() {
  Connect(std::string(exchange_), *group_, ConnectOptions(connect_));
}

template <typename T>
void Solver<T>::WithWholeHistory(const std::function<void()>& body) {
  if (!HistoryIsSharded()) return body();
  struct Release {
    ParameterFlow<T>& flow;
    ~Release() { flow.ReleaseHistory(); }
  } release{*flow_};
  flow_->GatherHistory(/*root=*/0);
  body();
}

template <typename T>
void Solver<T>::Disconnect() {
  step_.reset();
  flow_.reset();
  group_ = nullptr;
}

template <typename T>
void Solver<T>::AddCallback(SolverCallback callback) {
  if (flow_ && HidesGradients()) throw UnseenGradients(exchange_);
  const bool first = callbacks_.empty();
  Drain();
  callbacks_.push_back(std::move(callback));
  if (first && flow_) Reconnect();
}

template <typename T>
StepVotes Solver<T>::Step(const StepHooks& hooks) {
  for (const SolverCallback& callback : callbacks_) callback.on_start();
  rate_ = learning_rate_.Rate(iteration_);
  const StepStart start{.iteration = iteration_,
                        .rate = rate_,
                        .gradients_ready = callbacks_.empty() ? nullptr : &gradients_ready_};
  const StepVotes verdict = step_->Run(
      {.start = start, .first_pass = PassAt(iteration_ * param().iter_size(), 1), .hooks = hooks});
  if (verdict.bad > 0 && options_.bad_loss == BadLoss::kDiscardStep) {
    flow_->Cancel();
    return verdict;
  }
  if (verdict.weight > 0)
    learning_rate_.Observe(iteration_ - staleness(), verdict.loss / verdict.weight);
  if (!callbacks_.empty()) flow_->Drain();  // on_gradients_ready belongs to this step
  updater_->UpdateFrozen(stream_, {.iteration = iteration_, .rate = rate_});
  ++iteration_;
  return verdict;
}

template <typename T>
bool Solver<T>::exchanges_factors(int param) const {
  const Param<T>& p = At(net_->params(), param);
  return At(net_->layers(), p.layer)->gives_factors(p.index);
}

// The diffs hold gradients, not factors: from now on all layers are exchanged densely.
template <typename T>
void Solver<T>::ExchangeDensely() {
  ConnectOptions options = connect_;
  options.plan = {};
  for (const auto& layer : net_->layers())
    options.plan.layers.emplace_back(layer->name(), LayerScheme::kDense);
  Connect(std::string(exchange_), *group_, options);
}

template <typename T>
void Solver<T>::ApplyUpdate() {
  Ensure(!updates_in_backward(), "there is no place for the gradients of all parameters");
  Drain();
  for (int p = 0; p < Count(net_->params()); ++p)
    if (exchanges_factors(p)) ExchangeDensely();
  rate_ = learning_rate_.Rate(iteration_);
  step_->ApplyGradients({.iteration = iteration_, .rate = rate_});
  updater_->UpdateFrozen(stream_, {.iteration = iteration_, .rate = rate_});
  Drain();
}

template <typename T>
void Solver<T>::Drain() {
  if (flow_) flow_->Drain();
}

template <typename T>
Pass Solver<T>::PassAt(int64_t index, int64_t stride) const {
  return {.seed = options_.seed, .index = index, .stride = stride, .origin = sample_offset_};
}

template <typename T>
std::string Solver<T>::FindBadBlob() {
  std::vector<Pass> passes;
  for (int sub = 0; sub < param().iter_size(); ++sub)
    passes.push_back(PassAt(iteration_ * param().iter_size() + sub, 1));
  std::vector<std::string> found(static_cast<size_t>(team_->size()));
  team_->Run([&](int worker) {
    RunContext run = team_->Context(worker, passes[0]);
    run.trace = nullptr;
    At(found, worker) = carafe::FindBadBlob<T>(team_->net(worker), run, passes);
  });
  for (int w = 0; w < team_->size(); ++w) {
    if (std::isfinite(At(step_->losses(), w))) continue;
    return team_->size() == 1 ? found[0] : fmt::format("worker {}: {}", w, At(found, w));
  }
  return "";
}

template <typename T>
double Solver<T>::TestForward(int test_net, int64_t batch, int64_t stride) {
  Pass pass = PassAt(batch, stride);
  pass.origin = 0;  // tests always count from the first record
  RunContext run = team_->Context(0, pass);
  run.group = nullptr;  // ranks test different batches
  return At(test_nets_, test_net)->Forward(run);
}

template <typename T>
double Solver<T>::TrainLoss() {
  std::vector<double> losses(static_cast<size_t>(team_->size()));
  team_->Run([&](int worker) {
    RunContext run = team_->Context(worker, PassAt(iteration_ * param().iter_size(), 1));
    At(losses, worker) = team_->net(worker).Forward(run) * WeightOf(team_->replica(worker));
  });
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

template <typename T>
double Solver<T>::PeekRate() const {
  LearningRate copy = learning_rate_;
  return copy.Rate(iteration_);
}

template <typename T>
std::vector<Net<T>*> Solver<T>::AllNets() {
  std::vector<Net<T>*> nets;
  for (int w = 0; w < team_->size(); ++w) nets.push_back(&team_->net(w));
  for (const auto& net : test_nets_) nets.push_back(net.get());
  return nets;
}

template class Solver<float>;
template class Solver<double>;

}  // namespace carafe
