#include "carafe/exchange/sim_training.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/comm/tags.h"
#include "carafe/exchange/plan.h"
#include "carafe/exchange/shard_layout.h"
#include "carafe/exchange/votes.h"

namespace carafe {
namespace {

constexpr int64_t kFloat = sizeof(float);

// The parameters as an exchange sees them: gradients in the order of the backward pass, in an arena
// that nobody writes to.
struct SimArena {
  std::unique_ptr<float[]> memory;
  std::vector<ParamInfo<float>> params;

  explicit SimArena(const SimNet& net) : params(net.params.size()) {
    int64_t count = 0;
    for (const SimParam& param : net.params) count += param.count;
    memory.reset(new float[static_cast<size_t>(count)]);  // not initialised: takes no pages
    int64_t offset = 0;
    for (auto layer = net.layers.rbegin(); layer != net.layers.rend(); ++layer)
      for (const int p : layer->params) {
        At(params, p) = {.name = std::to_string(p),
                         .count = At(net.params, p).count,
                         .gradient = memory.get() + offset,
                         .arena_offset = offset,
                         .factors = At(net.params, p).factors};
        offset += At(net.params, p).count;
      }
  }
};

// The buckets that training plans after its first iterations (PlanBuckets).
std::vector<int> BucketSizes(const SimNet& net, const SimArena& arena, int ranks,
                             const SumCost& cost) {
  std::vector<double> ready_of(net.params.size());
  double now = 0;
  for (auto layer = net.layers.rbegin(); layer != net.layers.rend(); ++layer) {
    now += layer->backward;
    for (const int p : layer->params) At(ready_of, p) = now;
  }
  std::vector<double> ready;
  std::vector<int64_t> bytes;
  for (const int p : ArenaOrder<float>(arena.params)) {
    const FactorShape& factors = At(net.params, p).factors;
    ready.push_back(At(ready_of, p));
    bytes.push_back(kFloat *
                    (factors.rows == 0
                         ? At(net.params, p).count
                         : factors.rows * (factors.a_width + factors.b_width) * ranks / 2));
  }
  return MergeForEarliestEnd(ready, bytes, cost);
}

// One simulation. Transfers: see TransfersOf (scheme.h) and, for ssp, Shards (shards.h), whose
// slots and order of clocks these are.
class SimTraining {
 public:
  SimTraining(const SimNet& net, const SimCase& c, const SumCost* cost)
      : net_(net),
        case_(c),
        sharded_(c.exchange == "ssp"),
        scheme_(FindScheme(sharded_ ? "allreduce" : c.exchange)),
        slots_(sharded_ ? c.staleness + 1 : 1),
        first_measured_(cost ? slots_ : 0),
        steps_(first_measured_ + c.steps),
        network_(c.ranks, c.network),
        ranks_(static_cast<size_t>(c.ranks)) {
    SimArena arena(net);
    settings_.hosts = HostLayout::Even(c.ranks, 1);
    settings_.message_bytes = std::max<size_t>(cost ? MessageBytesFor(*cost) : kFirstMessageBytes,
                                               static_cast<size_t>(c.least_message_bytes));
    std::vector<int> sizes;
    if (!sharded_ && cost) sizes = BucketSizes(net, arena, c.ranks, *cost);
    plan_ = MakePlan<float>(arena.params, static_cast<size_t>(c.bucket_bytes), sizes);
    if (sharded_)
      sharded_buckets_ = LayOutShards<float>(plan_, arena.params, c.ranks, ShardCut::kElements);
  }

  int64_t MessagesOfStep() const {
    const auto sends = [&](int rank) {
      int64_t count = 0;
      for (const Transfer& transfer : TransfersOf(rank))
        for (const Program& program : transfer.chunks)
          count += std::ranges::count(program, Operation::Kind::kSend, &Operation::kind);
      return count / slots_;
    };
    return sends(0) + (case_.ranks - 1) * sends(case_.ranks - 1);
  }

  void Run() {
    for (int r = 0; r < case_.ranks; ++r) {
      Rank& rank = At(ranks_, r);
      std::vector<Transfer> transfers = TransfersOf(r);
      rank.complete.resize(transfers.size());
      rank.values.resize(plan_.buckets.size());
      rank.updated.resize(plan_.buckets.size());
      rank.used.resize(plan_.buckets.size(), -1);
      rank.engine =
          std::make_unique<Engine>(r, case_.ranks, ElementsOf<float>(), std::move(transfers),
                                   ChannelTags{kExchangeTag, kExchangePayloadTag});
      if (!sharded_) rank.votes = std::make_unique<VoteReduction>(r, case_.ranks);
      BeginStep(r);
    }
    network_.Run([this](int r) { Wake(r); });
    for (const Rank& rank : ranks_) Ensure(rank.step == steps_, "a simulated rank did not finish");
  }

  SimOutcome Outcome() const {
    SimOutcome outcome{.messages = network_.messages()};
    const double scale = 1.0 / (static_cast<double>(case_.ranks) * case_.steps);
    for (const Rank& rank : ranks_) {
      outcome.step_seconds = std::max(outcome.step_seconds, (rank.end - rank.begin) / case_.steps);
      outcome.compute_seconds += scale * rank.computed;
      outcome.bytes = std::max(outcome.bytes, rank.engine->bytes_sent() / steps_);
    }
    return outcome;
  }
  double now() const { return network_.now(); }

 private:
  enum class Waits { kNothing, kVerdict, kValues };
  struct Rank {
    std::unique_ptr<Engine> engine;
    std::unique_ptr<VoteReduction> votes;
    std::vector<int64_t> complete;  // by transfer: steps
    std::vector<int64_t> values;    // by bucket: steps whose values are here
    std::vector<int64_t> updated;   // by bucket: of them, those that this rank began to update
    std::vector<int64_t> used;      // by bucket: the last step that read it
    std::vector<int> missing;       // by bucket: gradients of this step
    int64_t step = 0;
    int64_t verdicts = 0;
    int layer = 0;  // of the pass
    Waits waits = Waits::kNothing;
    double update_free = 0;  // when the thread that updates for others is idle
    double begin = 0, end = 0, computed = 0;
  };

  int buckets() const { return Count(plan_.buckets); }
  int SumOf(int64_t step, int b) const { return static_cast<int>(step % slots_) * buckets() + b; }
  int ValuesOf(int64_t step, int b) const { return slots_ * buckets() + SumOf(step, b); }
  bool IsComplete(const Rank& rank, int transfer, int64_t step) const {
    return At(rank.complete, transfer) > step / slots_;
  }

  std::vector<Transfer> TransfersOf(int r) const {
    if (!sharded_) {
      std::vector<BucketMemory> memory;
      for (int b = 0; b < buckets(); ++b) memory.push_back(MemoryOf(b));
      return carafe::TransfersOf(scheme_, settings_, r, case_.ranks, ElementsOf<float>(), memory);
    }
    const auto message = static_cast<int64_t>(settings_.message_bytes) / kFloat;
    std::vector<Transfer> transfers;
    for (const auto write : {&SumAtShards, &SpreadFromShards})
      for (int slot = 0; slot < slots_; ++slot)
        for (int b = 0; b < buckets(); ++b)
          transfers.push_back({.count = At(sharded_buckets_, b).count,
                               .priority = buckets() - b,
                               .chunks = write(At(sharded_buckets_, b).bounds, r, message)});
    return transfers;
  }
  BucketMemory MemoryOf(int b) const {
    BucketMemory memory{.count = At(plan_.buckets, b).count, .priority = buckets() - b};
    const FactorShape& factors = FactorsOf(b);
    if (factors.rows == 0) return memory;
    memory.parts.assign(static_cast<size_t>(case_.ranks),
                        factors.rows * (factors.a_width + factors.b_width));
    memory.count = memory.parts[0] * case_.ranks;
    return memory;
  }
  const FactorShape& FactorsOf(int b) const {  // such a bucket has one parameter
    return At(net_.params, At(plan_.buckets, b).params.front()).factors;
  }

  double Slowdown(int r) const {
    return case_.slowdown ? case_.slowdown(r, At(ranks_, r).step) : 1.0;
  }
  // The rank computes for so many seconds, then goes on with `then`.
  void Compute(int r, double seconds, std::function<void()> then) {
    seconds *= Slowdown(r);
    if (At(ranks_, r).step >= first_measured_) At(ranks_, r).computed += seconds;
    network_.At(network_.now() + seconds, r, std::move(then));
  }

  void BeginStep(int r) {
    Rank& rank = At(ranks_, r);
    rank.missing.assign(plan_.buckets.size(), 0);
    for (const int b : plan_.bucket_of) ++At(rank.missing, b);
    rank.layer = 0;
    rank.waits = Waits::kValues;
  }

  // Seconds of what this rank must do before the layer can run, or -1 if values are missing.
  double Prepare(Rank& rank) {
    double seconds = 0;
    for (const int p : At(net_.layers, rank.layer).params)
      if (At(rank.values, At(plan_.bucket_of, p)) < rank.step - (slots_ - 1)) return -1;
    for (const int p : At(net_.layers, rank.layer).params) {
      const int b = At(plan_.bucket_of, p);
      if (std::exchange(At(rank.used, b), rank.step) == rank.step || rank.step == 0) continue;
      if (sharded_ || scheme_.root_updates) continue;  // the owner has updated
      seconds += UpdateSeconds(At(plan_.buckets, b).count) + ProductSeconds(FactorsOf(b));
    }
    return seconds;
  }
  double UpdateSeconds(int64_t count) const {
    return net_.update_per_byte * static_cast<double>(count * kFloat);
  }
  double ProductSeconds(const FactorShape& factors) const {
    return 2.0 * static_cast<double>(factors.rows) * (case_.ranks - 1) *
           static_cast<double>(factors.a_width) * static_cast<double>(factors.b_width) / net_.flops;
  }

  bool TryForward(int r) {
    Rank& rank = At(ranks_, r);
    if (rank.waits == Waits::kVerdict) {
      if (rank.verdicts < rank.step) return false;
      BeginStep(r);
    }
    if (rank.waits != Waits::kValues) return false;
    const double seconds = Prepare(rank);
    if (seconds < 0) return false;
    rank.waits = Waits::kNothing;
    Compute(r, seconds + At(net_.layers, rank.layer).forward, [this, r] { EndForward(r); });
    return true;
  }
  void EndForward(int r) {
    Rank& rank = At(ranks_, r);
    if (++rank.layer < Count(net_.layers)) {
      rank.waits = Waits::kValues;
      return;
    }
    if (rank.votes) rank.votes->OnVotes({});
    Backward(r);
  }
  void Backward(int r) {
    Rank& rank = At(ranks_, r);
    if (rank.layer-- == 0) return EndStep(r);
    Compute(r, At(net_.layers, rank.layer).backward, [this, r] {
      for (const int p : At(net_.layers, At(ranks_, r).layer).params)
        if (--At(At(ranks_, r).missing, At(plan_.bucket_of, p)) == 0)
          Announce(r, At(plan_.bucket_of, p));
      Backward(r);
    });
  }
  void Announce(int r, int b) {
    Rank& rank = At(ranks_, r);
    rank.engine->OnReady(SumOf(rank.step, b));
    if (!sharded_ && !scheme_.UpdatesOn(r)) rank.engine->OnReady(buckets() + b);
  }
  void EndStep(int r) {
    Rank& rank = At(ranks_, r);
    rank.end = network_.now();
    if (++rank.step == first_measured_) rank.begin = rank.end;
    rank.waits = Waits::kNothing;
    if (rank.step == steps_) return;
    if (rank.votes) {
      rank.waits = Waits::kVerdict;
    } else {
      BeginStep(r);
    }
  }

  void Wake(int r) {
    Rank& rank = At(ranks_, r);
    Transport& transport = network_.transport(r);
    for (bool moved = true; moved;) {
      moved = rank.engine->Poll(transport);
      if (rank.votes) moved |= rank.votes->Poll(transport);
      StepVotes verdict;
      if (rank.votes && rank.votes->TakeComplete(&verdict)) {
        ++rank.verdicts;
        moved = true;
      }
      for (const int transfer : rank.engine->TakeComplete()) {
        ++At(rank.complete, transfer);
        Proceed(r, transfer % buckets());
        moved = true;
      }
      moved |= TryForward(r);
    }
  }

  // Something of the bucket is complete.
  void Proceed(int r, int b) {
    Rank& rank = At(ranks_, r);
    const bool updates_for_others = sharded_ || (scheme_.root_updates && scheme_.UpdatesOn(r));
    for (int64_t& step = At(rank.updated, b);
         updates_for_others && IsComplete(rank, SumOf(step, b), step); ++step)
      UpdateForOthers(r, b, step);
    int64_t& here = At(rank.values, b);
    if (!sharded_ && !scheme_.root_updates) {
      here = At(rank.complete, b);
      return;
    }
    while (IsComplete(rank, SumOf(here, b), here) && IsComplete(rank, ValuesOf(here, b), here))
      ++here;
  }
  // Updates what this rank owns of the bucket, one after the other, and sends the values.
  void UpdateForOthers(int r, int b, int64_t step) {
    Rank& rank = At(ranks_, r);
    int64_t count = At(plan_.buckets, b).count;
    if (sharded_) {
      const std::vector<int64_t>& bounds = At(sharded_buckets_, b).bounds;
      count = At(bounds, r + 1) - At(bounds, r);
    }
    rank.update_free = std::max(rank.update_free, network_.now()) + UpdateSeconds(count);
    network_.At(rank.update_free, r,
                [this, r, b, step] { At(ranks_, r).engine->OnReady(ValuesOf(step, b)); });
  }

  const SimNet& net_;
  const SimCase& case_;
  const bool sharded_;
  const Scheme& scheme_;
  const int slots_;  // steps that may be in progress
  const int64_t first_measured_, steps_;
  SchemeSettings settings_;
  Plan plan_;
  std::vector<ShardedBucket> sharded_buckets_;
  SimNetwork network_;
  std::vector<Rank> ranks_;
};

// What training measures after its first iterations (MeasureSumCost), of sums as long.
SumCost MeasuredCost(const SimCase& c) {
  constexpr int64_t kShort = 1024, kLong = int64_t{256} << 10;
  const auto seconds = [&](int64_t count) {
    const SimNet net{.params = {{.count = count}}, .layers = {{.params = {0}}}};
    SimCase sum{.exchange = c.exchange, .ranks = c.ranks, .steps = 1, .network = c.network};
    sum.bucket_bytes = count * kFloat;
    SimTraining training(net, sum, nullptr);
    training.Run();
    return training.now();
  };
  const double small = seconds(kShort), large = seconds(kLong);
  return {
      .latency = small,
      .per_byte = std::max(large - small, 0.0) / static_cast<double>((kLong - kShort) * kFloat)};
}

}  // namespace

double SimNet::ComputeSeconds(int ranks) const {
  double seconds = update_per_byte * static_cast<double>(GradientBytes());
  for (const SimLayer& layer : layers) seconds += layer.forward + layer.backward;
  for (const SimParam& param : params)
    seconds += 2.0 * static_cast<double>(param.factors.rows) * (ranks - 1) *
               static_cast<double>(param.factors.a_width) *
               static_cast<double>(param.factors.b_width) / flops;
  return seconds;
}

int64_t SimNet::GradientBytes() const {
  int64_t count = 0;
  for (const SimParam& param : params) count += param.count;
  return count * kFloat;
}

SimOutcome SimulateTraining(const SimNet& net, const SimCase& c) {
  Ensure(c.ranks > 1, "one rank has nothing to exchange");
  const SumCost cost = c.exchange == "ssp" ? SumCost{} : MeasuredCost(c);
  SimTraining training(net, c, &cost);
  training.Run();
  return training.Outcome();
}

int64_t MessagesOfStep(const SimNet& net, const SimCase& c) {
  const SumCost cost;
  return SimTraining(net, c, &cost).MessagesOfStep();
}

}  // namespace carafe
