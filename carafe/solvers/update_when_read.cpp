#include "carafe/solvers/update_when_read.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "carafe/base/error.h"
#include "carafe/core/row_share.h"
#include "carafe/core/trace_span.h"
#include "carafe/kernels/math.h"

namespace carafe {

template <typename T>
UpdateWhenRead<T>::UpdateWhenRead(const FlowSetup<T>& setup)
    : team_(setup.team),
      net_(setup.team.net(0)),
      updater_(setup.updater),
      running_(setup.running),
      index_of_(net_.params().size(), kNotExchanged),
      starts_(static_cast<size_t>(setup.options.staleness) + 1),
      group_(setup.group) {
  net_.PlaceGradients(team_.stream(0), GradientLife::kStep,
                      setup.group.shares_memory() ? BufferUse::kShareable : BufferUse::kOwn);
  ListExchanged(setup);
  const ExchangeSetup<T> exchange{
      .group = setup.group,
      .params = infos_,
      .update = [this](int index, Stream& stream) { Update(index, stream); },
      .received = [this](int index, Stream&) { Received(index); },
      .update_shard = [this](const ShardUpdate<T>& update,
                             Stream& stream) { UpdateShard(update, stream); },
      .ends_round = [this, steps = std::max(setup.options.local_steps,
                                            1)] { return (step_.iteration + 1) % steps == 0; },
      .outer_rate = setup.options.outer_rate,
      .outer_momentum = setup.options.outer_momentum,
      .history_slots = updater_.num_slots(),
      .split_params = updater_.by_element(),
      .staleness = setup.options.staleness,
      .server = setup.options.server,
      .workers = team_.size(),
      .update_needs_all = updater_.clips() || setup.gradients_are_seen,
      .bucket_bytes = setup.options.bucket_bytes,
      .bucket_sizes = setup.options.bucket_sizes,
      .overlap = setup.options.overlap,
      .scheme = setup.options.scheme};
  const bool staged = !team_.stream(0).on_cpu() && setup.group.size() * team_.size() > 1;
  exchange_ = staged ? MakeStagedExchange<T>(setup.exchange, exchange, OnDevices())
                     : MakeExchange<T>(setup.exchange, exchange);
  sharded_ = !infos_.empty() && exchange_->owned_shard(0).has_value();
  if (sharded_) LoadHistory();
  RequestFactors();
}

// The nets compute all their gradients again.
template <typename T>
UpdateWhenRead<T>::~UpdateWhenRead() {
  for (ParamInfo<T>& info : infos_) info.factors = {};
  RequestFactors();
}

// Where the exchange takes factors (infos_ then keeps their shape) the nets offer them.
template <typename T>
void UpdateWhenRead<T>::RequestFactors() {
  for (int i = 0; i < Count(params_); ++i) {
    const int p = At(params_, i);
    ParamInfo<T>& info = At(infos_, i);
    if (info.factors.rows > 0 && !exchange_->WantsFactors(i)) info.factors = {};
    const bool wanted = info.factors.rows > 0;
    for (int w = 0; w < team_.size(); ++w) {
      Net<T>& net = team_.net(w);
      const Param<T>& param = At(net.params(), p);
      if (At(net.layers(), param.layer)->gives_factors(param.index) == wanted) continue;
      Ensure(net.RequestFactors(p, wanted), "a net does not give the factors that it has");
    }
  }
}

// The parameters that learn, and the running statistics as one more, which is sent as it is.
template <typename T>
void UpdateWhenRead<T>::ListExchanged(const FlowSetup<T>& setup) {
  for (int p = 0; p < Count(net_.params()); ++p) {
    const Param<T>& param = At(net_.params(), p);
    if (param.frozen()) continue;
    At(index_of_, p) = Count(params_);
    params_.push_back(p);
    infos_.push_back({.name = param.name,
                      .count = param.blob->count(),
                      .value = param.blob->mutable_data(team_.stream(0)),
                      .gradient = param.blob->mutable_diff(team_.stream(0)),
                      .arena_offset = param.arena_offset,
                      .memory = team_.stream(0).device().kind(),
                      .codec = setup.options.codec});
    for (int w = 1; w < team_.size(); ++w)
      infos_.back().other_gradients.push_back(
          At(team_.net(w).params(), p).blob->mutable_diff(team_.stream(w)));
    OfferFactors(net_, p, setup.factor_rows, setup.options.plan, &infos_.back());
  }
  if (!running_.exchanged()) return;
  for (const int p : running_.params()) At(index_of_, p) = Count(params_);
  infos_.push_back(running_.Info());
}

template <typename T>
DeviceWorkers<T> UpdateWhenRead<T>::OnDevices() {
  DeviceWorkers<T> workers;
  for (int w = 0; w < team_.size(); ++w) {
    workers.streams.push_back(&team_.stream(w));
    std::vector<T*>& values = workers.values.emplace_back();
    if (team_.shares_values(w)) continue;
    for (const int p : params_)
      values.push_back(At(team_.net(w).params(), p).blob->mutable_data(team_.stream(w)));
  }
  return workers;
}

template <typename T>
void UpdateWhenRead<T>::BeforeRead(int worker, int param) {
  const int index = At(index_of_, param);
  if (index == kNotExchanged) return;
  const TraceSpan span(team_.trace(), "exchange", At(net_.params(), param).name);
  exchange_->AwaitValue(worker, index, team_.stream(worker));
}

template <typename T>
void UpdateWhenRead<T>::FinishReads(int worker) {
  exchange_->FinishReads(worker, team_.stream(worker));
}

template <typename T>
void UpdateWhenRead<T>::ForwardDone(int worker) {
  if (!running_.exchanged()) return;
  running_.Collect(worker);
  exchange_->GradientReady(worker, Count(params_), team_.stream(worker));
}

template <typename T>
void UpdateWhenRead<T>::BeginUpdates(const StepStart& step) {
  step_ = step;
  numbers_.reset();
  if (sharded_) StartOf(exchange_->stats().steps) = step;
}

template <typename T>
void UpdateWhenRead<T>::FactorsReady(int worker, int param, const Factors<T>& factors) {
  exchange_->FactorsReady(worker, At(index_of_, param),
                          {.a = factors.left,
                           .b = factors.right,
                           .shape = {factors.rows, factors.left_width, factors.right_width},
                           .scale = static_cast<T>(WeightOf(team_.replica(worker)))},
                          team_.stream(worker));
}

template <typename T>
void UpdateWhenRead<T>::GradientFinal(int worker, int param) {
  const int index = At(index_of_, param);
  if (index == kNotExchanged || IsRunning(index)) return;
  exchange_->GradientReady(worker, index, team_.stream(worker));
}

template <typename T>
void UpdateWhenRead<T>::Update(int index, Stream& stream) {
  if (IsRunning(index)) return running_.TakeSum();
  updater_.Update(stream, At(params_, index), Numbers(stream));
}

// At the owner of a shard. One that is not by element is a whole parameter.
template <typename T>
void UpdateWhenRead<T>::UpdateShard(const ShardUpdate<T>& update, Stream& stream) {
  if (IsRunning(update.param))
    return running_.MeanOf(update.shard.count, update.gradient, update.value);
  const StepStart& start = StartOf(update.clock);
  ParamSlice<T> slice{
      .count = update.shard.count, .value = update.value, .gradient = update.gradient};
  std::ranges::copy(update.history, slice.history.begin());
  updater_.UpdateSlice(stream, At(params_, update.param), slice,
                       updater_.NumbersOf(start.iteration, start.rate, update.squares));
}

template <typename T>
void UpdateWhenRead<T>::Received(int index) {
  if (IsRunning(index)) running_.HandOut();
}

// Clipping and callbacks see the gradients of all parameters: with update_needs_all the exchange
// calls no Update before every sum is there.
template <typename T>
StepNumbers<T> UpdateWhenRead<T>::Numbers(Stream& stream) {
  std::lock_guard lock(mutex_);
  if (numbers_) return *numbers_;
  GradientsHold hold = GradientsHold::kSumsOverWorkers;
  if (step_.gradients_ready != nullptr) {
    MakeMeans(stream);
    hold = GradientsHold::kMeansOverWorkers;
    (*step_.gradients_ready)();
  }
  numbers_ = updater_.NumbersOf(stream, step_.iteration, step_.rate, hold);
  return *numbers_;
}

template <typename T>
void UpdateWhenRead<T>::MakeMeans(Stream& stream) {
  const int workers = team_.replica(0).count;
  if (workers == 1) return;
  for (const Param<T>& p : net_.params()) {
    if (p.frozen()) continue;
    T* gradient = p.blob->mutable_diff(stream);
    Scale(stream, p.blob->count(), T(1) / static_cast<T>(workers), gradient, gradient);
  }
}

// The shards take their parts of the updater's history, which gives its memory back.
template <typename T>
void UpdateWhenRead<T>::LoadHistory() {
  for (const StateTensor<T>& tensor : exchange_->state()) {
    if (!tensor.history) continue;
    const HistoryPart& part = *tensor.history;
    const std::vector<T> whole =
        updater_.history(part.slot, At(params_, part.param)).DataToHost(team_.stream(0));
    std::copy_n(whole.begin() + part.shard.first, tensor.count, tensor.data);
  }
  ReleaseHistory();
}

// Frozen parameters keep theirs.
template <typename T>
void UpdateWhenRead<T>::ReleaseHistory() {
  for (const int p : params_)
    for (int slot = 0; slot < updater_.num_slots(); ++slot) {
      Blob<T>& blob = updater_.history(slot, p);
      blob = Blob<T>(blob.shape());
    }
}

// The mean of the ranks' own histories, each the bytes of `count` elements.
template <typename T>
std::vector<T> UpdateWhenRead<T>::MeanOf(const std::vector<std::string>& histories, size_t count) {
  std::vector<double> sum(count);
  std::vector<T> one(count);
  for (const std::string& history : histories) {
    Ensure(history.size() == count * sizeof(T), "the history of a rank is not whole");
    if (count > 0) std::memcpy(one.data(), history.data(), history.size());
    for (size_t i = 0; i < count; ++i) sum[i] += static_cast<double>(one[i]);
  }
  for (size_t i = 0; i < count; ++i)
    one[i] = static_cast<T>(sum[i] / static_cast<double>(histories.size()));
  return one;
}

template <typename T>
void UpdateWhenRead<T>::GatherHistory(int root) {
  if (!sharded_) return;
  const std::vector<StateTensor<T>> state = exchange_->state();
  for (int index = 0; index < Count(params_); ++index)
    for (int slot = 0; slot < updater_.num_slots(); ++slot) {
      std::string mine;  // at most one shard
      for (const StateTensor<T>& tensor : state)
        if (tensor.history && tensor.history->param == index && tensor.history->slot == slot)
          mine.assign(reinterpret_cast<const char*>(tensor.data),
                      static_cast<size_t>(tensor.count) * sizeof(T));
      const std::vector<std::string> all = group_.AllGather(mine, "the solver's history");
      if (root >= 0 && group_.rank() != root) continue;
      Blob<T>& blob = updater_.history(slot, At(params_, index));
      if (exchange_->every_rank_has_history()) {
        blob.SetData(team_.stream(0), MeanOf(all, static_cast<size_t>(blob.count())));
        continue;
      }
      std::vector<T> whole(static_cast<size_t>(blob.count()));
      size_t at = 0;  // the ranks own consecutive parts
      for (const std::string& part : all) {
        Ensure(at + part.size() <= whole.size() * sizeof(T), "the shards overlap");
        if (!part.empty())
          std::memcpy(reinterpret_cast<char*>(whole.data()) + at, part.data(), part.size());
        at += part.size();
      }
      Ensure(at == whole.size() * sizeof(T), "the shards leave a gap");
      blob.SetData(team_.stream(0), whole);
    }
}

template <typename T>
void UpdateWhenRead<T>::Drain() {
  exchange_->Drain(0, team_.stream(0));
  // Callbacks are called even if no update runs here: nothing learns, or rank 0 alone updates.
  if (step_.gradients_ready != nullptr) Numbers(team_.stream(0));
}

template <typename T>
void UpdateWhenRead<T>::Cancel() {
  exchange_->Cancel();
  step_ = {};
  net_.ClearParamDiffs(team_.stream(0));
}

template class UpdateWhenRead<float>;
template class UpdateWhenRead<double>;

}  // namespace carafe
