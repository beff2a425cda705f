#include "carafe/solvers/solver.h"

#include <cmath>

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
    const bool frozen = net_->params()[p].frozen();
    exchange_of_.push_back(frozen ? -1 : static_cast<int>(exchanged_.size()));
    if (!frozen) exchanged_.push_back(static_cast<int>(p));
  }
}

template <typename T>
void Solver<T>::Connect(const std::string& exchange, Group& group, size_t bucket_bytes,
                        bool overlap) {
  exchange_.reset();  // of an earlier call
  exchange_name_ = exchange;
  bucket_bytes_ = bucket_bytes;
  overlap_ = overlap;
  std::vector<ParamInfo<T>> infos;
  for (const int p : exchanged_) {
    const Param<T>& param = net_->params()[static_cast<size_t>(p)];
    infos.push_back({.name = param.name,
                     .count = param.blob->count(),
                     .value = param.blob->mutable_data(stream_),
                     .gradient = param.blob->mutable_diff(stream_),
                     .arena_offset = param.arena_offset});
  }
  group_ = &group;
  exchange_ = MakeExchange<T>(
      exchange,
      ExchangeSetup<T>{.group = group,
                       .params = infos,
                       .update = [this](int e) { Update(exchanged_[static_cast<size_t>(e)]); },
                       .update_needs_all = param().clip_gradients() >= 0 || !callbacks_.empty(),
                       .bucket_bytes = bucket_bytes,
                       .overlap = overlap});
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
  Connect(exchange_name_, *group_, bucket_bytes_, overlap_);
}

template <typename T>
RunContext Solver<T>::Context(int64_t pass, int64_t stride) {
  return {
      .stream = stream_,
      .pass = {.seed = options_.seed, .index = pass, .stride = stride, .origin = sample_offset_},
      .replica = options_.replica,
      .group = options_.replica.count > 1 ? group_ : nullptr,
      .trace = options_.trace};
}

template <typename T>
StepVotes Solver<T>::Step(const std::function<StepVotes()>& wishes) {
  if (!callbacks_.empty()) Drain();  // the last step's on_gradients_ready comes before on_start
  for (const SolverCallback& callback : callbacks_) callback.on_start();
  const int passes = param().iter_size();
  const double next_rate = learning_rate_.Rate(iteration_);
  double loss = 0;
  for (int sub = 0; sub < passes; ++sub) {
    RunContext run = Context(iteration_ * passes + sub, 1);
    loss += net_->Forward(run, this);
    if (sub == 0) {
      // Every parameter has its last update by now, also those that no layer read on the way.
      Drain();
      if (keep_updates()) net_->ClearParamDiffs(stream_);
      for (const Param<T>& p : net_->params()) {
        const Layer<T>& layer = *net_->layers()[static_cast<size_t>(p.layer)];
        if (p.frozen() && layer.param_propagate_down(p.index)) p.blob->ZeroDiff(stream_);
      }
    }
    announce_ = sub == passes - 1;
    net_->Backward(run, this);
  }
  announce_ = false;
  rate_ = next_rate;
  // A worker's part in the mean is its share of the rows; equal shares weigh 1 each.
  double weight = 1;
  const Replica& replica = options_.replica;
  if (replica.global_batch > 0) {
    weight = static_cast<double>(RowsOf(replica, replica.global_batch)) * replica.count /
             static_cast<double>(replica.global_batch);
  }
  StepVotes mine = wishes ? wishes() : StepVotes();
  mine.loss = loss / passes * weight;
  mine.weight = weight;
  mine.bad = std::isfinite(loss) ? 0 : 1;
  StepVotes verdict;
  {
    const TraceSpan span(options_.trace, "exchange", "votes");
    exchange_->FinishStep(mine);
    verdict = exchange_->AwaitVerdict();
  }
  AverageRunningBlobs();
  learning_rate_.Observe(iteration_, verdict.loss / verdict.weight);
  FinishUpdates();
  callbacks_due_ = !callbacks_.empty();
  return verdict;
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
  Drain();
  rate_ = learning_rate_.Rate(iteration_);
  for (size_t e = exchanged_.size(); e-- > 0;) {
    exchange_->GradientReady(0, static_cast<int>(e), stream_);
  }
  exchange_->FinishStep({.weight = 1});
  exchange_->AwaitVerdict();
  AverageRunningBlobs();
  FinishUpdates();
  Drain();
  --iteration_;
}

// What Forward wrote on each worker (BatchNorm's running statistics) becomes the mean over all, so
// that the replicas stay equal.
template <typename T>
void Solver<T>::AverageRunningBlobs() {
  if (options_.replica.count == 1) return;
  std::vector<double> all;
  for (const Param<T>& p : net_->params()) {
    if (p.learned) continue;
    const std::vector<T> values = p.blob->DataToHost(stream_);
    all.insert(all.end(), values.begin(), values.end());
  }
  if (all.empty()) return;
  group_->Sum(all);
  auto next = all.begin();
  for (const Param<T>& p : net_->params()) {
    if (p.learned) continue;
    std::vector<T> values(static_cast<size_t>(p.blob->count()));
    for (T& value : values) value = static_cast<T>(*next++ / options_.replica.count);
    p.blob->SetData(stream_, values);
  }
}

template <typename T>
void Solver<T>::BeforeRead(int param) {
  const int e = exchange_of_[static_cast<size_t>(param)];
  if (e < 0) return;
  const TraceSpan span(options_.trace, "exchange", net_->params()[static_cast<size_t>(param)].name);
  exchange_->AwaitValue(0, e, stream_);
}

template <typename T>
void Solver<T>::GradientFinal(int param) {
  const int e = exchange_of_[static_cast<size_t>(param)];
  if (!announce_ || e < 0) return;
  const Replica& replica = options_.replica;
  if (replica.global_batch > 0 && replica.global_batch % replica.count != 0) {
    Blob<T>& blob = *net_->params()[static_cast<size_t>(param)].blob;
    const T weight = static_cast<T>(static_cast<double>(RowsOf(replica, replica.global_batch)) *
                                    replica.count / static_cast<double>(replica.global_batch));
    T* gradient = blob.mutable_diff(stream_);
    Scale(stream_, blob.count(), weight, gradient, gradient);
  }
  exchange_->GradientReady(0, e, stream_);
}

// clip_gradients bounds the L2 norm of the mean gradient summed over iter_size, before it is
// divided by iter_size.
template <typename T>
T Solver<T>::ClipScale() {
  if (param().clip_gradients() < 0) return 1;
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
  const Param<T>& owned = net_->params()[static_cast<size_t>(p)];
  const TraceSpan span(options_.trace, "update", owned.name);
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
  step.iteration = iteration_ - 1;  // Step has counted this one already
  step.keep_update = keep_updates();
  rule_->Apply(stream_, step);
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
  exchange_->Drain();
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
  RunContext run = Context(batch, stride);
  run.pass.origin = 0;  // tests always count from the first record
  return test_nets_[static_cast<size_t>(test_net)]->Forward(run);
}

template <typename T>
double Solver<T>::PeekRate() {
  LearningRate copy = learning_rate_;
  return copy.Rate(iteration_);
}

template class Solver<float>;
template class Solver<double>;

}  // namespace carafe
