#include "carafe/exchange/staged_exchange.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/core/page_locked.h"

namespace carafe {
namespace {

// Versions order the copies: host_version_[p] counts how often the host's value of p was replaced,
// and every copy on a device knows which version it has.
//
// Streams. A worker's own stream carries its gradients to the host, which waits for them: when
// GradientReady returns, no queued work of that worker reads p's value any more, so that others may
// write it. All values are written through a stream of each copy's own, under its mutex, and the
// host waits for that, too.
template <typename T>
class StagedExchange final : public Exchange<T> {
 public:
  StagedExchange(const std::string& name, const ExchangeSetup<T>& setup,
                 const DeviceWorkers<T>& workers)
      : params_(setup.params.begin(), setup.params.end()),
        update_(setup.update),
        received_(setup.received),
        update_needs_all_(setup.update_needs_all),
        first_stream_(*At(workers.streams, 0)),
        host_version_(params_.size(), 0),
        factors_(workers.streams.size()) {
    AddCopies(workers);
    const bool alone = setup.group.size() == 1;
    const Scheme* scheme = SchemeRegistry::Instance().Find(name);
    updates_here_ = alone || (scheme != nullptr && scheme->UpdatesOn(setup.group.rank()));
    host_needs_values_ = copies_.size() > 1 || (!alone && (!scheme || scheme->root_updates));
    const std::vector<ParamInfo<T>> on_host = OnHost(setup.workers);
    ExchangeSetup<T> inner = setup;
    inner.params = on_host;
    inner.update = [this](int param, Stream& stream) { Update(param, stream); };
    inner.received = [this](int param, Stream& stream) { Received(param, stream); };
    inner_ = MakeExchange<T>(name, inner);
  }

  void AwaitValue(int worker, int param, Stream&) override {
    TakeOverFromDevice();
    inner_->AwaitValue(worker, param, At(host_streams_, worker));
    BringUpToDate(*At(copy_of_, worker), param, param + 1);
  }
  void FinishReads(int worker, Stream&) override {
    TakeOverFromDevice();
    inner_->FinishReads(worker, At(host_streams_, worker));
    BringUpToDate(*At(copy_of_, worker), 0, Count(params_));
  }
  int64_t clock(int param) const override { return inner_->clock(param); }

  void GradientReady(int worker, int param, Stream& stream) override {
    TakeOverFromDevice();  // unless the step has a forward pass
    if (staged(param)) {
      const ParamInfo<T>& p = At(params_, param);
      T* gradient = worker == 0 ? p.gradient : At(p.other_gradients, worker - 1);
      if (inner_->WantsFactors(param)) {
        stream.Synchronize();
      } else {
        stream.CopyToHost(Span(At(gradients_, worker).data() + p.arena_offset, p), gradient);
        if (worker > 0 || !updates_here_) stream.Zero(gradient, static_cast<size_t>(p.count));
        if (worker == 0 && !updates_here_) stream.Synchronize();
      }
    }
    inner_->GradientReady(worker, param, At(host_streams_, worker));
  }

  bool WantsFactors(int param) const override { return inner_->WantsFactors(param); }
  void FactorsReady(int worker, int param, const StepFactors<T>& factors, Stream& stream) override {
    StepFactors<T> on_host = factors;
    if (staged(param)) {
      auto& [a, b] = At(factors_, worker);
      a.resize(static_cast<size_t>(factors.shape.rows * factors.shape.a_width));
      b.resize(static_cast<size_t>(factors.shape.rows * factors.shape.b_width));
      stream.CopyToHost(std::span<T>(a), factors.a);
      stream.CopyToHost(std::span<T>(b), factors.b);
      on_host.a = a.data();
      on_host.b = b.data();
    }
    inner_->FactorsReady(worker, param, on_host, At(host_streams_, worker));
  }

  void Vote(const StepVotes& mine) override { inner_->Vote(mine); }
  void FinishStep() override {
    sums_are_here_ = false;
    inner_->FinishStep();
  }
  StepVotes AwaitVerdict() override { return inner_->AwaitVerdict(); }
  int staleness() const override { return inner_->staleness(); }
  std::vector<StepVotes> TakeVerdicts() override { return inner_->TakeVerdicts(); }
  void Cancel() override { inner_->Cancel(); }

  // All devices get the values: tests and searches for bad losses read them without AwaitValue.
  void Drain(int worker, Stream&) override {
    inner_->Drain(worker, At(host_streams_, worker));
    for (Copy& copy : copies_) BringUpToDate(copy, 0, Count(params_));
    at_border_ = true;
  }

  std::optional<Shard> owned_shard(int param) const override { return inner_->owned_shard(param); }
  bool every_rank_has_history() const override { return inner_->every_rank_has_history(); }
  std::vector<StateTensor<T>> state() override { return inner_->state(); }
  std::vector<int64_t> staleness_seen() const override { return inner_->staleness_seen(); }
  ExchangeStats stats() const override { return inner_->stats(); }
  std::vector<double> ready_times() const override { return inner_->ready_times(); }

 private:
  // The values of all parameters on one device.
  struct Copy {
    explicit Copy(Device& device) : stream(device) {}
    Stream stream;
    std::mutex mutex;              // guards stream, version and what the values point to
    std::vector<T*> values;        // by parameter
    std::vector<int64_t> version;  // by parameter
  };

  bool staged(int param) const { return At(params_, param).memory != DeviceKind::kCpu; }
  static std::span<T> Span(T* data, const ParamInfo<T>& param) {
    return {data, static_cast<size_t>(param.count)};
  }
  std::span<T> HostValue(int param) const {
    const ParamInfo<T>& p = At(params_, param);
    return Span(values_->data() + p.arena_offset, p);
  }

  // ---- Memory ----

  void AddCopies(const DeviceWorkers<T>& workers) {
    for (int w = 0; w < Count(workers.streams); ++w) {
      Stream& stream = *At(workers.streams, w);
      host_streams_.emplace_back(CpuDevice(), stream.threads());
      const bool own = w > 0 && !At(workers.values, w).empty();
      if (w == 0 || own) {
        Copy& copy = copies_.emplace_back(stream.device());
        copy.version.resize(params_.size(), 0);
        for (const ParamInfo<T>& param : params_) copy.values.push_back(param.value);
        if (own) std::ranges::copy(At(workers.values, w), copy.values.begin());
      }
      copy_of_.push_back(own ? &copies_.back() : &copies_.front());
    }
  }

  // The parameters as the inner exchange sees them, in arenas that are laid out as the devices'.
  std::vector<ParamInfo<T>> OnHost(int workers) {
    int64_t end = 0;
    for (int p = 0; p < Count(params_); ++p)
      if (staged(p)) end = std::max(end, At(params_, p).arena_offset + At(params_, p).count);
    values_.emplace(static_cast<size_t>(end));
    for (int w = 0; w < workers; ++w) gradients_.emplace_back(static_cast<size_t>(end));
    std::vector<ParamInfo<T>> on_host = params_;
    for (ParamInfo<T>& param : on_host) {
      if (param.memory == DeviceKind::kCpu) continue;
      param.memory = DeviceKind::kCpu;
      param.value = values_->data() + param.arena_offset;
      param.gradient = At(gradients_, 0).data() + param.arena_offset;
      for (int w = 1; w < workers; ++w)
        At(param.other_gradients, w - 1) = At(gradients_, w).data() + param.arena_offset;
    }
    return on_host;
  }

  // ---- Values ----

  // After Drain, and at the start, the caller may have changed the values of worker 0.
  void TakeOverFromDevice() {
    if (!at_border_.load(std::memory_order_acquire)) return;
    Copy& first = copies_.front();
    const std::lock_guard lock(first.mutex);
    if (!at_border_.load(std::memory_order_relaxed)) return;
    first_stream_.Synchronize();
    for (int p = 0; p < Count(params_); ++p) {
      if (!staged(p)) continue;
      first.stream.CopyToHost(HostValue(p), At(params_, p).value);
      At(first.version, p) = ++At(host_version_, p);
    }
    at_border_.store(false, std::memory_order_release);
  }

  // Parameters [begin, end).
  void BringUpToDate(Copy& copy, int begin, int end) {
    const std::lock_guard lock(copy.mutex);
    Stream& stream = copy.stream;
    bool copied = false;
    for (int p = begin; p < end; ++p) {
      if (!staged(p) || At(copy.version, p) == At(host_version_, p)) continue;
      stream.CopyFromHost<T>(At(copy.values, p), HostValue(p));
      At(copy.version, p) = At(host_version_, p);
      copied = true;
    }
    if (copied) stream.Synchronize();
  }

  // ---- Updates: called by the inner exchange, on the thread of any worker ----

  void Update(int param, Stream& host_stream) {
    if (!staged(param)) return update_(param, host_stream);
    Copy& first = copies_.front();
    const std::lock_guard lock(first.mutex);
    if (!update_needs_all_) {
      SumToDevice(param, first.stream);
    } else if (!std::exchange(sums_are_here_, true)) {  // their norm is that of all gradients
      for (int p = 0; p < Count(params_); ++p) SumToDevice(p, first.stream);
    }
    update_(param, first.stream);
    if (!host_needs_values_) return first.stream.Synchronize();
    first.stream.CopyToHost(HostValue(param), At(params_, param).value);
    At(first.version, param) = ++At(host_version_, param);
  }

  void SumToDevice(int param, Stream& stream) {
    if (!staged(param)) return;
    const ParamInfo<T>& p = At(params_, param);
    const std::span<T> sum = Span(At(gradients_, 0).data() + p.arena_offset, p);
    stream.CopyFromHost<T>(p.gradient, sum);
    if (inner_->WantsFactors(param)) std::ranges::fill(sum, T(0));  // products are added to it
  }

  void Received(int param, Stream& host_stream) {
    if (staged(param)) ++At(host_version_, param);
    if (received_) received_(param, host_stream);
  }

  const std::vector<ParamInfo<T>> params_;
  const std::function<void(int, Stream&)> update_;
  const std::function<void(int, Stream&)> received_;
  const bool update_needs_all_;
  Stream& first_stream_;           // of worker 0's passes
  bool updates_here_ = true;       // each update leaves 0 in the gradient of worker 0
  bool host_needs_values_ = true;  // after each update
  std::deque<Copy> copies_;
  std::vector<Copy*> copy_of_;       // by worker
  std::deque<Stream> host_streams_;  // by worker: what the inner exchange runs
  std::optional<PageLocked<T>> values_;
  std::deque<PageLocked<T>> gradients_;  // by worker
  // By parameter. Changes while one thread updates or receives it, before others may read it.
  std::vector<int64_t> host_version_;
  std::atomic<bool> at_border_ = true;  // the newest values are those of worker 0's device
  bool sums_are_here_ = false;          // of this step, on worker 0's device; guarded as its copy
  std::vector<std::pair<std::vector<T>, std::vector<T>>> factors_;  // by worker
  std::unique_ptr<Exchange<T>> inner_;  // last: it uses all of the above
};

// Exchanges that change values on other occasions than update and received.
template <typename T>
void CheckStaged(const std::string& name, const ExchangeSetup<T>& setup) {
  if (name == "local")
    throw ConfigError("--exchange=local keeps the values of a round's start in CPU memory",
                      "train on CPUs, or use --exchange=allreduce");
  if (setup.server.update == ServerUpdate::kArrival)
    throw ConfigError("--server_update=arrival keeps every rank's values in CPU memory",
                      "train on CPUs, or use --server_update=clock");
}

}  // namespace

template <typename T>
std::unique_ptr<Exchange<T>> MakeStagedExchange(const std::string& name,
                                                const ExchangeSetup<T>& setup,
                                                const DeviceWorkers<T>& workers) {
  CheckStaged(name, setup);
  return std::make_unique<StagedExchange<T>>(name, setup, workers);
}

template std::unique_ptr<Exchange<float>> MakeStagedExchange(const std::string&,
                                                             const ExchangeSetup<float>&,
                                                             const DeviceWorkers<float>&);
template std::unique_ptr<Exchange<double>> MakeStagedExchange(const std::string&,
                                                              const ExchangeSetup<double>&,
                                                              const DeviceWorkers<double>&);

}  // namespace carafe
