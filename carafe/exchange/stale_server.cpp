// --exchange=ssp: a parameter server sharded over all ranks, with clocks and a staleness s, after
// Bösen (PMLS-Caffe): a forward pass of step t may read values of any clock from t - s on.
// --server_update=clock (shards.h): the owner of a shard applies clock c once, when the gradients
// of all ranks for c have arrived. With s = 0 it has the bits of allreduce, and otherwise those of
// a serial replay of the clocks read. --server_update=arrival (delta_shards.h): every rank runs the
// rule, and the owner adds its change when it arrives.
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/base/timer.h"
#include "carafe/exchange/delta_shards.h"
#include "carafe/exchange/exchange_registry.h"
#include "carafe/exchange/plan.h"
#include "carafe/exchange/polled_engine.h"
#include "carafe/exchange/shards.h"
#include "carafe/exchange/synchronous.h"

namespace carafe {
namespace {

ShardCut CutOf(bool split_params, bool norms) {
  if (!split_params) return ShardCut::kWholeParams;
  return norms ? ShardCut::kNormBlocks : ShardCut::kElements;
}

// What the settings cannot be combined with, for any number of ranks.
template <typename T>
void CheckSettings(const ExchangeSetup<T>& setup) {
  const ServerSettings& server = setup.server;
  const bool arrival = server.update == ServerUpdate::kArrival;
  if (server.combine == Combine::kSum && !arrival)
    throw ConfigError(
        "--combine=sum adds the updates of ranks that run the rule themselves, but "
        "--server_update=clock runs it once on the mean gradient",
        "use --server_update=arrival, or --lr_scaling=linear, or remove --combine");
  if (arrival && setup.update_needs_all)
    throw ConfigError(
        "clip_gradients bounds the norm of the mean gradient of all ranks, which "
        "nobody has with --server_update=arrival",
        "remove clip_gradients, or use --server_update=clock");
  const bool managed = server.consistency == Consistency::kManaged;
  if (!managed && (server.bandwidth_mbps > 0 || server.order != SendOrder::kFifo))
    throw ConfigError("--bandwidth_mbps and --send_order manage what --consistency=sspaggr sends",
                      "use --consistency=sspaggr, or remove them");
}

void CheckTimeout(const SchemeSettings& scheme) {
  if (scheme.timeout >= 0)
    throw ConfigError("--exchange_timeout is for --exchange=server, not for ssp",
                      "remove it; --staleness lets ranks go on without late ones");
}

// Threads: see Exchange. Updates run on a thread of their own, so that no rank waits for the shards
// of one that computes. Within a step a bucket is read once, by the first worker that asks for it:
// all passes and workers of the rank see the same clock.
template <typename T>
class StaleServer final : public Exchange<T> {
 public:
  explicit StaleServer(const ExchangeSetup<T>& setup)
      : params_(setup.params.begin(), setup.params.end()),
        staleness_(setup.staleness),
        workers_(setup.workers),
        overlap_(setup.overlap),
        received_(setup.received),
        update_shard_(setup.update_shard),
        plan_(MakePlan<T>(
            setup.params, setup.bucket_bytes,
            setup.split_params ? setup.bucket_sizes : std::vector<int>(setup.params.size(), 1))),
        arrival_(setup.server.update == ServerUpdate::kArrival),
        shards_(MakeShards(setup)),
        buckets_(plan_.buckets.size()),
        announced_(static_cast<size_t>(workers_), std::vector<char>(params_.size())),
        seen_(static_cast<size_t>(staleness_) + 1) {
    ComparePlans(setup.group, SettingsText(setup), plan_);
    Check(setup);
    for (int b = 0; b < Count(buckets_); ++b) At(buckets_, b).missing = Announcements(b);
    engine_ = std::make_unique<PolledEngine>(
        *setup.group.thread(), ElementsOf<T>(), shards_->transfers(), /*timeout=*/-1,
        /*vote_steps=*/staleness_ + 1, [this] { WakeServer(); });
    transfers_ = {.steps = [this](int transfer) { return engine_->steps(transfer); },
                  .start = [this](int transfer) { engine_->Start(transfer); },
                  .listen = [this](int transfer) { engine_->Listen(transfer); }};
    if (setup.server.bandwidth_mbps > 0) engine_->Limit(BytesPerSecond(setup.server));
    shards_->Begin(transfers_);
    server_ = std::thread([this] { Serve(); });
  }

  // Ends the exchange with the other ranks, unless a step was broken off: then messages that are
  // still on their way use the shards' memory, and the transport is given up.
  ~StaleServer() override {
    try {
      if (std::uncaught_exceptions() == 0 && !failed_ && count_ == 0) Close();
    } catch (const std::exception&) {
      // The group has failed; the next call that waits reports it.
    }
    {
      std::lock_guard lock(server_mutex_);
      stop_ = true;
    }
    server_wake_.notify_all();
    server_.join();
  }

  void AwaitValue(int worker, int param, Stream& stream) override {
    Read(worker, At(plan_.bucket_of, param), stream);
  }
  void FinishReads(int worker, Stream& stream) override {
    for (int b = 0; b < Count(buckets_); ++b) Read(worker, b, stream);
  }
  int64_t clock(int param) const override { return At(buckets_, At(plan_.bucket_of, param)).clock; }

  void GradientReady(int worker, int param, Stream& stream) override {
    const int b = At(plan_.bucket_of, param);
    Read(worker, b, stream);  // has been read, unless the step has no forward pass
    {
      std::lock_guard lock(mutex_);
      char& announced = At(At(announced_, worker), param);
      Ensure(!announced, "a gradient was announced twice in a step");
      announced = 1;
      ++count_;
      if (--At(buckets_, b).missing > 0) return;
    }
    TakeGradients(b, stream);
    if (overlap_) StartSum(b);
  }

  void Vote(const StepVotes& mine) override { engine_->Vote(mine); }

  void FinishStep() override {
    Ensure(count_ == params_.size() * static_cast<size_t>(workers_),
           "FinishStep without the gradients of all parameters");
    for (int b = 0; b < Count(buckets_); ++b) {
      if (!overlap_) StartSum(b);
      At(buckets_, b).missing = Announcements(b);
    }
    for (std::vector<char>& worker : announced_) std::ranges::fill(worker, 0);
    count_ = 0;
    ++steps_;
  }

  StepVotes AwaitVerdict() override {
    const int64_t step = steps_ - 1 - staleness_;
    if (step < verdicts_given_) return {};
    verdicts_given_ = step + 1;
    return Verdict(step);
  }
  int staleness() const override { return staleness_; }
  std::vector<StepVotes> TakeVerdicts() override {
    std::vector<StepVotes> verdicts;
    for (; verdicts_given_ < steps_; ++verdicts_given_)
      verdicts.push_back(Verdict(verdicts_given_));
    return verdicts;
  }
  void Cancel() override {}

  void Drain(int worker, Stream& stream) override {
    Ensure(count_ == 0, "Drain within a step");
    for (int b = 0; b < Count(buckets_); ++b) {
      BucketState& bucket = At(buckets_, b);
      if (bucket.in_net) continue;
      AwaitClock(worker, b, steps_);
      CopyToNet(b, stream);
      bucket.in_net = true;
    }
  }

  std::optional<Shard> owned_shard(int param) const override { return shards_->owned(param); }
  bool every_rank_has_history() const override { return arrival_; }
  std::vector<StateTensor<T>> state() override { return shards_->state(); }
  std::vector<int64_t> staleness_seen() const override { return seen_; }
  std::vector<double> ready_times() const override { return std::vector<double>(params_.size()); }
  ExchangeStats stats() const override {
    return {.wait_seconds = wait_seconds_,
            .bytes_sent = engine_->bytes_sent(),
            .bytes_received = engine_->bytes_received(),
            .steps = steps_};
  }

 private:
  struct BucketState {
    int missing = 0;       // announcements in this step
    int64_t clock = 0;     // of the values in the net
    int64_t read_in = -1;  // the step in which they were read
    bool reading = false;  // by a worker, the others wait for it
    // The net has the newest values, and the caller may change them: at the start, and from Drain
    // until the next read.
    bool in_net = true;
  };

  static double BytesPerSecond(const ServerSettings& server) {
    return server.bandwidth_mbps * 1e6 / 8;
  }
  // With a limit a message takes a few milliseconds, so that no moment exceeds it by much.
  static int64_t MessageBytes(const ExchangeSetup<T>& setup) {
    const auto bytes = static_cast<int64_t>(
        setup.scheme.message_bytes > 0 ? setup.scheme.message_bytes : kFirstMessageBytes);
    if (setup.server.bandwidth_mbps <= 0) return bytes;
    const double few_ms = std::clamp(5e-3 * BytesPerSecond(setup.server), 1e3, 1e9);
    return std::min(bytes, static_cast<int64_t>(few_ms));
  }

  std::unique_ptr<ServerShards<T>> MakeShards(const ExchangeSetup<T>& setup) {
    const ShardSettings settings{.rank = setup.group.rank(),
                                 .size = setup.group.size(),
                                 .staleness = setup.staleness,
                                 .history_slots = setup.history_slots,
                                 .norms = setup.update_needs_all,
                                 .message_bytes = MessageBytes(setup),
                                 .hosts = setup.scheme.hosts.known()
                                              ? setup.scheme.hosts
                                              : HostLayout(setup.group.thread()->hosts()),
                                 .server = setup.server};
    // Where every rank runs the rule it has whole parameters.
    const ShardCut cut = CutOf(setup.split_params || arrival_, setup.update_needs_all);
    std::vector<ShardedBucket> buckets =
        LayOutShards<T>(plan_, setup.params, setup.group.size(), cut);
    if (arrival_)
      return std::make_unique<DeltaShards<T>>(settings, std::move(buckets), setup.params,
                                              update_shard_);
    return std::make_unique<Shards<T>>(
        settings, std::move(buckets), setup.params,
        [this](const ShardUpdate<T>& update) { update_shard_(update, server_stream_); });
  }

  // All that decides which messages a rank sends and expects: must be equal on all ranks.
  static std::string SettingsText(const ExchangeSetup<T>& setup) {
    return fmt::format(
        "exchange ssp\nstaleness {}\nexchange_timeout {}\nmessages of {} bytes\nworkers {}\n"
        "norms {}\nserver_update {}\ncombine {}\nconsistency {}\n",
        setup.staleness, setup.scheme.timeout, MessageBytes(setup), setup.workers,
        setup.update_needs_all, setup.server.update == ServerUpdate::kArrival ? "arrival" : "clock",
        setup.server.combine == Combine::kSum ? "sum" : "mean",
        setup.server.consistency == Consistency::kManaged ? "sspaggr" : "ssppush");
  }

  void Check(const ExchangeSetup<T>& setup) const {
    CheckTimeout(setup.scheme);
    CheckSettings(setup);
    for (const ParamInfo<T>& param : params_) {
      Ensure(param.memory == DeviceKind::kCpu, "memory of devices needs a staged exchange");
      if (param.codec != nullptr)
        throw ConfigError("--exchange=ssp sends gradients and values as they are",
                          "remove --wire, or use --exchange=allreduce");
    }
  }

  int Announcements(int bucket) const { return Count(At(plan_.buckets, bucket).params) * workers_; }

  // ---- Gradients ----

  // This rank's update of this step; the gradients of its workers become 0.
  void TakeGradients(int b, Stream& stream) {
    const ParamInfo<T>& first = At(params_, At(plan_.buckets, b).params.front());
    Offer<T> offer{.clock = steps_, .read = At(buckets_, b).clock, .parts = {first.gradient}};
    offer.parts.insert(offer.parts.end(), first.other_gradients.begin(),
                       first.other_gradients.end());
    shards_->Take(offer, b, stream);
  }

  void StartSum(int b) { engine_->Start(shards_->SumOf(steps_, b), shards_->Expected(steps_, b)); }

  // ---- Values ----

  // The first worker that asks for a bucket in this step puts values in the net that are new
  // enough; the others wait for it.
  void Read(int worker, int b, Stream& stream) {
    BucketState& bucket = At(buckets_, b);
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return failed_ || !bucket.reading; });
      if (failed_) std::rethrow_exception(failed_);
      if (bucket.read_in == steps_) return;
      bucket.reading = true;
    }
    std::exception_ptr error;
    try {
      if (bucket.in_net) {
        TakeFromNet(b);
      } else {
        AwaitClock(worker, b, steps_ - staleness_);
        CopyToNet(b, stream);
      }
    } catch (...) {
      error = std::current_exception();
    }
    std::lock_guard lock(mutex_);
    if (error) failed_ = error;
    bucket.reading = false;
    bucket.read_in = steps_;
    if (!error) ++At(seen_, steps_ - bucket.clock);
    changed_.notify_all();
    if (error) std::rethrow_exception(error);
  }

  void AwaitClock(int worker, int b, int64_t clock) {
    BucketState& bucket = At(buckets_, b);
    const auto here = [&] { return shards_->ValueClock(b, bucket.clock, transfers_) >= clock; };
    if (!here()) {
      const Timer timer;
      engine_->Await(fmt::format("clock {} of {}", clock,
                                 At(params_, At(plan_.buckets, b).params.front()).name),
                     here);
      if (worker == 0) wait_seconds_ += timer.Seconds();
    }
    bucket.clock = shards_->ValueClock(b, bucket.clock, transfers_);
    Ensure(bucket.clock >= clock && bucket.clock <= steps_, "a value has a clock out of bounds");
  }

  // Running statistics are copied to the net in every step: its forward passes change them.
  void CopyToNet(int b, Stream& stream) {
    for (const PlacedParam& placed : At(shards_->buckets(), b).params) {
      shards_->CopyValues(At(buckets_, b).clock, steps_, b, placed,
                          At(params_, placed.param).value);
      if (received_) received_(placed.param, stream);
    }
  }

  // After Drain, or at the start: no clock is in progress.
  void TakeFromNet(int b) {
    BucketState& bucket = At(buckets_, b);
    Ensure(bucket.clock == steps_, "values were changed while a clock was in progress");
    for (const PlacedParam& placed : At(shards_->buckets(), b).params)
      shards_->SetValues(bucket.clock, b, placed, At(params_, placed.param).value);
    bucket.in_net = false;
  }

  // ---- Votes ----

  const StepVotes& Verdict(int64_t step) {
    const Timer timer;
    engine_->Await(fmt::format("the votes of step {}", step + 1),
                   [&] { return engine_->verdicts() > step; });
    wait_seconds_ += timer.Seconds();
    return engine_->verdict(step);
  }

  // ---- Updates, on the thread of the server ----

  void WakeServer() {
    {
      std::lock_guard lock(server_mutex_);
      woken_ = true;
    }
    server_wake_.notify_one();
  }

  void Serve() {
    for (;;) {
      {
        std::unique_lock lock(server_mutex_);
        server_wake_.wait(lock, [this] { return woken_ || stop_; });
        if (stop_) return;
        woken_ = false;
      }
      try {
        shards_->Advance(transfers_);
      } catch (...) {
        engine_->Fail(std::current_exception());
        return;
      }
    }
  }

  void Close() {
    for (int b = 0; b < Count(buckets_); ++b)
      if (!At(buckets_, b).in_net) AwaitClock(/*worker=*/0, b, steps_);
    if (steps_ > 0) Verdict(steps_ - 1);
    engine_->Close();
  }

  const std::vector<ParamInfo<T>> params_;
  const int staleness_;
  const int workers_;
  const bool overlap_;
  const std::function<void(int, Stream&)> received_;
  const std::function<void(const ShardUpdate<T>&, Stream&)> update_shard_;
  const Plan plan_;
  Stream server_stream_;  // of the server's thread
  const bool arrival_;
  const std::unique_ptr<ServerShards<T>> shards_;
  std::mutex mutex_;  // guards what follows, while workers run
  std::condition_variable changed_;
  std::vector<BucketState> buckets_;
  std::vector<std::vector<char>> announced_;  // by worker and parameter, in this step
  size_t count_ = 0;                          // of them
  std::vector<int64_t> seen_;                 // see staleness_seen
  std::exception_ptr failed_;
  // Of worker 0's thread:
  int64_t steps_ = 0;  // finished; constant while workers run
  int64_t verdicts_given_ = 0;
  double wait_seconds_ = 0;

  std::mutex server_mutex_;
  std::condition_variable server_wake_;
  bool woken_ = false, stop_ = false;
  std::unique_ptr<PolledEngine> engine_;
  ShardTransfers transfers_;
  std::thread server_;
};

// One rank owns everything, and nobody is late: as any synchronous exchange.
template <typename T>
std::unique_ptr<Exchange<T>> MakeStaleServer(const ExchangeSetup<T>& setup) {
  if (setup.group.size() > 1) return std::make_unique<StaleServer<T>>(setup);
  CheckTimeout(setup.scheme);
  CheckSettings(setup);
  ExchangeSetup<T> alone = setup;
  alone.staleness = 0;
  alone.server = {};
  return MakeSynchronous(FindScheme("allreduce"), alone);
}

struct RegisterStaleServer {
  explicit RegisterStaleServer(const ExchangeKind& kind) {
    ExchangeRegistry::Instance().Add(kind.name, kind);
  }
};
const RegisterStaleServer kRegistered{
    {.name = "ssp",
     .summary = "A server sharded over all ranks; values may lag behind by --staleness clocks.",
     .describe =
         [](const SchemeSettings&, int size) {
           return fmt::format("{} shards of every bucket of parameters, one on each rank", size);
         },
     .make_float = MakeStaleServer<float>,
     .make_double = MakeStaleServer<double>}};

}  // namespace
}  // namespace carafe
