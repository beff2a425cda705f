#include "carafe/solvers/solver.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "carafe/core/trace_span.h"
#include "carafe/kernels/math.h"
#include "carafe/net/weights.h"

namespace carafe {
namespace {

RuleConfig RuleConfigOf(const SolverParameter& param) {
  return {.momentum = param.momentum(),
          .momentum2 = param.momentum2(),
          .delta = param.delta(),
          .rms_decay = param.rms_decay(),
          .trust_coefficient = param.trust_coefficient()};
}

template <typename T>
std::unique_ptr<UpdateRule<T>> MakeRule(const SolverParameter& param) {
  const RuleEntry* entry = RuleRegistry::Instance().Find(param.type());
  Ensure(entry != nullptr, "the solver's type was not checked");
  if constexpr (std::is_same_v<T, float>) {
    return entry->make_float(RuleConfigOf(param));
  } else {
    return entry->make_double(RuleConfigOf(param));
  }
}

}  // namespace

int64_t RowsOf(const Replica& replica, int64_t global) {
  return (global - replica.index + replica.count - 1) / replica.count;
}

template <typename T>
Solver<T>::Solver(const SolverSpec& spec, Stream& stream, const SolverOptions& options)
    : spec_(spec),
      stream_(stream),
      options_(options),
      rule_(MakeRule<T>(spec.param)),
      learning_rate_(spec.param, spec.place) {
  const SolverNet train = TrainNetOf(spec_, options.level, options.stages);
  net_ = std::make_unique<Net<T>>(train.spec, train.state);
  for (const SolverNet& test : TestNetsOf(spec_, options.level, options.stages)) {
    test_nets_.push_back(std::make_unique<Net<T>>(test.spec, test.state));
  }
  net_->Initialise(stream_, options_.seed);
  for (auto& test : test_nets_) {
    test->Initialise(stream_, options_.seed);
    test->ShareParamsWith(*net_);
  }
  for (int s = 0; s < rule_->num_slots(); ++s) {
    for (const Param<T>& param : net_->params()) history_.emplace_back(param.blob->shape());
  }
  for (size_t p = 0; p < net_->params().size(); ++p) {
    if (!net_->params()[p].learned) running_.push_back(static_cast<int>(p));
  }
  team_ = std::make_unique<WorkerTeam<T>>(options_.workers, *net_, stream_, [&] {
    auto twin = std::make_unique<Net<T>>(train.spec, train.state);
    twin->Initialise(stream_, options_.seed);
    twin->ShareLearnedParamsWith(*net_);
    return twin;
  });
  if (options_.share_memory) ShareMemory();
  events_.resize(static_cast<size_t>(options_.workers));
  losses_.resize(static_cast<size_t>(options_.workers));
  for (int w = 0; w < options_.workers; ++w) {
    events_[static_cast<size_t>(w)].solver = this;
    events_[static_cast<size_t>(w)].worker = w;
  }
}

// Workers run at the same time; test nets run when the first worker's net does not.
template <typename T>
void Solver<T>::ShareMemory() {
  const auto pool = std::make_shared<MemoryPool>();
  for (int w = 0; w < workers(); ++w) {
    team_->net(w).ShareMemory(MemorySharing::kTraining,
                              w == 0 ? pool : std::make_shared<MemoryPool>());
  }
  for (auto& test : test_nets_) test->ShareMemory(MemorySharing::kForward, pool);
}

// What was updated early has no need of an exchange.
template <typename T>
void Solver<T>::ListExchanged() {
  exchanged_.clear();
  exchange_of_.clear();
  for (size_t p = 0; p < net_->params().size(); ++p) {
    const bool travels = !early_ && !net_->params()[p].frozen();
    exchange_of_.push_back(travels ? static_cast<int>(exchanged_.size()) : -1);
    if (travels) exchanged_.push_back(static_cast<int>(p));
  }
}

// All that travels: the parameters that learn, and the running statistics as one more.
template <typename T>
std::vector<ParamInfo<T>> Solver<T>::ParamInfos() {
  std::vector<ParamInfo<T>> infos;
  for (const int p : exchanged_) {
    const Param<T>& param = net_->params()[static_cast<size_t>(p)];
    infos.push_back({.name = param.name,
                     .count = param.blob->count(),
                     .value = param.blob->mutable_data(stream_),
                     .gradient = param.blob->mutable_diff(stream_),
                     .arena_offset = param.arena_offset});
    for (int w = 1; w < workers(); ++w)
      infos.back().other_gradients.push_back(
          team_->net(w).params()[static_cast<size_t>(p)].blob->mutable_diff(team_->stream(w)));
  }
  int64_t running = 0;
  for (const int p : running_) running += net_->params()[static_cast<size_t>(p)].blob->count();
  if (options_.replica.count > 1 && running > 0) {
    running_values_.assign(static_cast<size_t>(workers()),
                           std::vector<T>(static_cast<size_t>(running)));
    running_mean_.resize(static_cast<size_t>(running));
    running_index_ = static_cast<int>(infos.size());
    infos.push_back({.name = "running statistics",
                     .count = running,
                     .value = running_mean_.data(),
                     .gradient = running_values_[0].data(),
                     .arena_offset = net_->arena_count()});
    for (int w = 1; w < workers(); ++w)
      infos.back().other_gradients.push_back(running_values_[static_cast<size_t>(w)].data());
  }
  return infos;
}

template <typename T>
void Solver<T>::Connect(const std::string& exchange, Group& group, const ConnectOptions& options) {
  exchange_.reset();  // of an earlier call
  exchange_name_ = exchange;
  connect_ = options;
  group_ = &group;
  ChooseWhenToUpdate();
  ListExchanged();
  const std::vector<ParamInfo<T>> infos = ParamInfos();
  CopyRunningToWorkers();
  if (options_.replica.count > 1) team_sum_ = std::make_unique<TeamSum>(workers(), group);
  exchange_ = MakeExchange<T>(
      exchange,
      ExchangeSetup<T>{.group = group,
                       .params = infos,
                       .update =
                           [this](int e, Stream&) {
                             if (e != running_index_) {
                               Update(exchanged_[static_cast<size_t>(e)]);
                               return;
                             }
                             const T share = T(1) / static_cast<T>(options_.replica.count);
                             for (size_t i = 0; i < running_mean_.size(); ++i)
                               running_mean_[i] = running_values_[0][i] * share;
                             HandOutRunning();
                           },
                       .received =
                           [this](int e, Stream&) {
                             if (e == running_index_) HandOutRunning();
                           },
                       .workers = workers(),
                       .update_needs_all = param().clip_gradients() >= 0 || !callbacks_.empty(),
                       .bucket_bytes = options.bucket_bytes,
                       .bucket_sizes = options.bucket_sizes,
                       .overlap = options.overlap,
                       .scheme = options.scheme});
}

template <typename T>
typename Solver<T>::Merged Solver<T>::MergeBuckets() {
  Drain();
  const std::vector<double> ready = exchange_->ready_times();
  exchange_.reset();  // the measurement uses its tags
  Merged merged{.cost = MeasureSumCost(*group_, exchange_name_, connect_.scheme)};
  ConnectOptions options = connect_;
  if (options.scheme.message_bytes == 0)
    options.scheme.message_bytes = MessageBytesFor(merged.cost);
  merged.message_bytes = options.scheme.message_bytes;
  options.bucket_sizes = PlanBuckets<T>(*group_, ParamInfos(), ready, merged.cost);
  merged.buckets = options.bucket_sizes.size();
  Connect(std::string(exchange_name_), *group_, options);
  return merged;
}

template <typename T>
void Solver<T>::Disconnect() {
  exchange_.reset();
  group_ = nullptr;
}

template <typename T>
void Solver<T>::AddCallback(SolverCallback callback) {
  callbacks_.push_back(std::move(callback));
  if (callbacks_.size() > 1 || !exchange_) return;
  Drain();
  Connect(exchange_name_, *group_, ConnectOptions(connect_));
}

template <typename T>
Replica Solver<T>::ReplicaOf(int worker) const {
  Replica replica = options_.replica;
  replica.index += worker;
  return replica;
}

// A worker's part in the mean is its share of the rows; equal shares weigh 1 each.
template <typename T>
double Solver<T>::WeightOf(const Replica& replica) const {
  if (replica.global_batch <= 0) return 1;
  return static_cast<double>(RowsOf(replica, replica.global_batch)) * replica.count /
         static_cast<double>(replica.global_batch);
}

template <typename T>
RunContext Solver<T>::Context(int worker, int64_t pass, int64_t stride) {
  return {
      .stream = team_->stream(worker),
      .pass = {.seed = options_.seed, .index = pass, .stride = stride, .origin = sample_offset_},
      .replica = ReplicaOf(worker),
      .group = team_sum_ ? &team_sum_->part(worker) : nullptr,
      .sync_batch_norm = options_.sync_batch_norm,
      .trace = options_.trace};
}

template <typename T>
void Solver<T>::Passes(int worker) {
  const int passes = param().iter_size();
  Net<T>& net = team_->net(worker);
  Stream& stream = team_->stream(worker);
  Events& events = events_[static_cast<size_t>(worker)];
  double& loss = losses_[static_cast<size_t>(worker)];
  loss = 0;
  for (int sub = 0; sub < passes; ++sub) {
    RunContext run = Context(worker, iteration_ * passes + sub, 1);
    loss += net.Forward(run, &events);
    if (sub == 0) {
      // Every parameter has its last update by now, also those that no layer read on the way.
      exchange_->Drain(worker, stream);
      if (worker == 0) UpdateFrozen();
      if (keep_updates()) net.ClearParamDiffs(stream);
      for (const Param<T>& p : net.params()) {
        const Layer<T>& layer = *net.layers()[static_cast<size_t>(p.layer)];
        if (p.frozen() && layer.param_propagate_down(p.index)) p.blob->ZeroDiff(stream);
      }
    }
    events.announce = sub == passes - 1;
    if (events.announce && group_->size() > 1 &&
        forwards_left_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      CastVotes();
    if (events.announce) CollectRunning(worker);
    if (early_) BeginEarlyUpdates(loss);
    net.Backward(run, &events);
  }
  events.announce = false;
}

// This rank's votes, and from here on updates are those of this step. Among several ranks by the
// worker that ends its last forward pass last: votes travel while the backward pass computes, and
// need not be waited for at its end. Alone there is nobody to wait for, and wishes are asked for as
// late as can be.
template <typename T>
void Solver<T>::CastVotes() {
  if (!early_) BeginUpdates();
  StepVotes mine = hooks_->wishes ? hooks_->wishes() : StepVotes();
  for (int w = 0; w < workers(); ++w) {
    const double loss = losses_[static_cast<size_t>(w)];
    const double weight = WeightOf(ReplicaOf(w));
    mine.loss += loss / param().iter_size() * weight;
    mine.weight += weight;
    if (!std::isfinite(loss)) mine.bad = 1;
  }
  exchange_->Vote(mine);
}

template <typename T>
StepVotes Solver<T>::Step(const StepHooks& hooks) {
  if (!callbacks_.empty()) Drain();  // the last step's on_gradients_ready comes before on_start
  for (const SolverCallback& callback : callbacks_) callback.on_start();
  next_rate_ = learning_rate_.Rate(iteration_);
  hooks_ = &hooks;
  forwards_left_ = workers();
  team_->Run([this](int worker) { Passes(worker); },
             [&] {
               if (team_sum_) team_sum_->BreakOff();
             });
  if (group_->size() == 1) CastVotes();
  hooks_ = nullptr;
  if (hooks.computed) hooks.computed();
  StepVotes verdict;
  {
    const TraceSpan span(options_.trace, "exchange", "votes");
    exchange_->FinishStep();
    verdict = exchange_->AwaitVerdict();
  }
  learning_rate_.Observe(iteration_, verdict.loss / verdict.weight);
  FinishUpdates();
  callbacks_due_ = !callbacks_.empty();
  return verdict;
}

// All updates of the last step are done; those that come are this step's.
template <typename T>
void Solver<T>::BeginUpdates() {
  rate_ = next_rate_;
  update_iteration_ = iteration_;
}

// The sums of this step are on their way: what Update will do with them.
template <typename T>
void Solver<T>::FinishUpdates() {
  clip_known_ = means_ready_ = false;
  ++iteration_;
  frozen_due_ = true;
}

template <typename T>
void Solver<T>::TellGradientsReady() {
  callbacks_due_ = false;
  if (options_.replica.count > 1) {
    for (const Param<T>& p : net_->params()) {
      if (p.frozen()) continue;
      T* gradient = p.blob->mutable_diff(stream_);
      Scale(stream_, p.blob->count(), T(1) / static_cast<T>(options_.replica.count), gradient,
            gradient);
    }
    means_ready_ = true;
  }
  --iteration_;  // callers see the number of the step under way
  for (const SolverCallback& callback : callbacks_) callback.on_gradients_ready();
  ++iteration_;
}

template <typename T>
void Solver<T>::ApplyUpdate() {
  Ensure(!early_, "there is no place for the gradients of all parameters");
  Drain();
  next_rate_ = learning_rate_.Rate(iteration_);
  BeginUpdates();
  for (int w = 0; w < workers(); ++w) {
    CollectRunning(w);
    for (size_t e = exchanged_.size(); e-- > 0;)
      exchange_->GradientReady(w, static_cast<int>(e), team_->stream(w));
  }
  exchange_->Vote({.weight = 1});
  exchange_->FinishStep();
  exchange_->AwaitVerdict();
  FinishUpdates();
  Drain();
  --iteration_;
}

// After the worker's last Forward of the step; its running blobs are not read before they come
// back.
template <typename T>
void Solver<T>::CollectRunning(int worker) {
  if (running_index_ < 0) return;
  auto next = running_values_[static_cast<size_t>(worker)].begin();
  for (const int p : running_) {
    const Blob<T>& blob = *team_->net(worker).params()[static_cast<size_t>(p)].blob;
    const std::vector<T> values = blob.DataToHost(team_->stream(worker));
    next = std::copy(values.begin(), values.end(), next);
  }
  exchange_->GradientReady(worker, running_index_, team_->stream(worker));
}

template <typename T>
void Solver<T>::HandOutRunning() {
  for (int w = 0; w < workers(); ++w) {
    auto next = running_mean_.begin();
    for (const int p : running_) {
      Blob<T>& blob = *team_->net(w).params()[static_cast<size_t>(p)].blob;
      const auto end = next + blob.count();
      blob.SetData(team_->stream(w), std::vector<T>(next, end));
      next = end;
    }
  }
}

template <typename T>
std::vector<Net<T>*> Solver<T>::AllNets() {
  std::vector<Net<T>*> nets;
  for (int w = 0; w < workers(); ++w) nets.push_back(&team_->net(w));
  for (const auto& net : test_nets_) nets.push_back(net.get());
  return nets;
}

template <typename T>
void Solver<T>::CopyRunningToWorkers() {
  for (int w = 1; w < workers(); ++w)
    for (const int p : running_)
      team_->net(w).params()[static_cast<size_t>(p)].blob->SetData(
          team_->stream(w), net_->params()[static_cast<size_t>(p)].blob->DataToHost(stream_));
}

template <typename T>
void Solver<T>::BeforeRead(int worker, int param) {
  int e = exchange_of_[static_cast<size_t>(param)];
  if (!net_->params()[static_cast<size_t>(param)].learned) e = running_index_;
  if (e < 0) return;
  const TraceSpan span(options_.trace, "exchange", net_->params()[static_cast<size_t>(param)].name);
  exchange_->AwaitValue(worker, e, team_->stream(worker));
}

template <typename T>
void Solver<T>::GradientFinal(int worker, int param, bool announce) {
  if (early_) return UpdateEarly(param);
  const int e = exchange_of_[static_cast<size_t>(param)];
  if (!announce || e < 0) return;
  Stream& stream = team_->stream(worker);
  const Replica replica = ReplicaOf(worker);
  if (replica.global_batch > 0 && replica.global_batch % replica.count != 0) {
    Blob<T>& blob = *team_->net(worker).params()[static_cast<size_t>(param)].blob;
    T* gradient = blob.mutable_diff(stream);
    Scale(stream, blob.count(), static_cast<T>(WeightOf(replica)), gradient, gradient);
  }
  exchange_->GradientReady(worker, e, stream);
}

// clip_gradients bounds the L2 norm of the mean gradient summed over iter_size, before it is
// divided by iter_size.
template <typename T>
T Solver<T>::ClipScale() {
  if (param().clip_gradients() < 0) return 1;
  std::lock_guard lock(clip_mutex_);
  if (!clip_known_) {
    double squares =
        0;  // parameter by parameter, in learnable order: the same bits on every worker
    for (const Param<T>& p : net_->params()) {
      if (p.frozen()) continue;
      squares += SumOfSquares(stream_, p.blob->count(), p.blob->diff(stream_));
    }
    const double norm = std::sqrt(squares) / (means_ready_ ? 1 : options_.replica.count);
    const double limit = param().clip_gradients();
    clip_scale_ = static_cast<T>(norm > limit ? limit / norm : 1.0);
    clip_known_ = true;
  }
  return clip_scale_;
}

template <typename T>
void Solver<T>::Update(int p) {
  if (callbacks_due_) TellGradientsReady();
  const TraceSpan span(options_.trace, "update", net_->params()[static_cast<size_t>(p)].name);
  rule_->Apply(stream_, StepOf(p));
}

template <typename T>
carafe::Step<T> Solver<T>::StepOf(int p) {
  const Param<T>& owned = net_->params()[static_cast<size_t>(p)];
  const T decay = static_cast<T>(param().weight_decay() * owned.decay_mult);
  const bool l1 = param().regularization_type() == "L1";
  carafe::Step<T> step;
  step.count = owned.blob->count();
  step.value = owned.blob->mutable_data(stream_);
  step.gradient = owned.blob->mutable_diff(stream_);
  const size_t params = net_->params().size();
  for (int s = 0; s < rule_->num_slots(); ++s) {
    step.slots[s] =
        history_[static_cast<size_t>(s) * params + static_cast<size_t>(p)].mutable_data(stream_);
  }
  step.rate = static_cast<T>(rate_ * owned.lr_mult);
  const int workers = means_ready_ ? 1 : options_.replica.count;
  step.scale = ClipScale() / static_cast<T>(param().iter_size() * workers);
  step.l1 = l1 ? decay : T(0);
  step.l2 = l1 ? T(0) : decay;
  step.iteration = update_iteration_;
  step.keep_update = keep_updates();
  return step;
}

// At rate 0 a parameter stays as it is, but the original still lets weight decay move the history
// of some rules, and its snapshots show that.
template <typename T>
void Solver<T>::UpdateFrozen() {
  if (!frozen_due_) return;
  frozen_due_ = false;
  if (!RuleRegistry::Instance().Find(param().type())->info.history_ignores_rate) return;
  for (size_t p = 0; p < net_->params().size(); ++p) {
    const Param<T>& frozen = net_->params()[p];
    if (!frozen.frozen() || param().weight_decay() * frozen.decay_mult == 0) continue;
    frozen.blob->ZeroDiff(stream_);  // with force_backward each worker has its own; none counts
    Update(static_cast<int>(p));
  }
}

template <typename T>
void Solver<T>::Drain() {
  if (!exchange_) return;
  exchange_->Drain(0, stream_);
  if (callbacks_due_) TellGradientsReady();  // no parameter learns
  UpdateFrozen();
}

template <typename T>
void Solver<T>::ThrowStepAway() {
  exchange_->Cancel();
  frozen_due_ = callbacks_due_ = false;
  net_->ClearParamDiffs(stream_);
  --iteration_;
}

template <typename T>
double Solver<T>::TestForward(int test_net, int64_t batch, int64_t stride) {
  RunContext run = Context(0, batch, stride);
  run.group = nullptr;  // ranks test different batches
  run.pass.origin = 0;  // tests always count from the first record
  return test_nets_[static_cast<size_t>(test_net)]->Forward(run);
}

template <typename T>
double Solver<T>::TrainLoss() {
  std::vector<double> losses(static_cast<size_t>(workers()));
  team_->Run(
      [&](int worker) {
        RunContext run = Context(worker, iteration_ * param().iter_size(), 1);
        losses[static_cast<size_t>(worker)] =
            team_->net(worker).Forward(run) * WeightOf(ReplicaOf(worker));
      },
      [&] {
        if (team_sum_) team_sum_->BreakOff();
      });
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

template <typename T>
double Solver<T>::PeekRate() {
  LearningRate copy = learning_rate_;
  return copy.Rate(iteration_);
}

template class Solver<float>;
template class Solver<double>;

}  // namespace carafe
