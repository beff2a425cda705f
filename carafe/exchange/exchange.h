// How the workers of all ranks keep their parameters consistent.
//
// Terms, each with one meaning:
//   exchange   what --exchange names (allreduce, server, tree, ..): a row of ExchangeRegistry
//   strategy   a class that implements Exchange<T>: who owns parameters, when updates run, when a
//              worker waits: Synchronous, shared by all synchronous exchanges, StaleServer, or
//              LocalSteps
//   scheme     a row of the table of Synchronous (scheme.h): which programs move gradients and
//              values, and which ranks update
//   algorithm  a function that writes the programs of one sum (program.h): what --sum names
//
// A strategy knows neither Net nor Solver. Every rank makes the same calls, for each of its workers
// w, in every step:
//   forward   AwaitValue(w, p, stream)       before a layer reads parameter p
//   votes     Vote(votes)                    once, as soon as the losses are known, so that they
//                                            are sent while the backward pass computes
//   backward  GradientReady(w, p, stream)    p's gradient is final: starts moving it, never blocks;
//             FactorsReady(w, p, f, stream)  before it, where WantsFactors(p), once or more: the
//                                            gradient is the product of what was offered
//   step      FinishStep()                   every gradient of this step has been announced
//             AwaitVerdict()                 the votes of all ranks, summed; then either continue,
//             or Cancel()                       discard the step
//   border    Drain(w, stream)               before a test or a snapshot: nothing is in progress
//
// Updates. A synchronous strategy calls update(p) when p's sum over all workers is complete: on
// every rank, or on rank 0, which sends the values out. It does so in AwaitValue(p), or in an
// earlier call that would otherwise wait. A strategy that owns parameters (a sharded server) calls
// update_shard on the owner of a shard, with memory of its own; the values that AwaitValue gives
// carry a clock, which may lag behind by up to `staleness` steps. After Drain, and before the first
// step, the caller may change values (on all ranks alike); the next AwaitValue takes them over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/comm/group.h"
#include "carafe/core/stream.h"
#include "carafe/exchange/codec.h"
#include "carafe/exchange/scheme.h"
#include "carafe/exchange/server_settings.h"
#include "carafe/exchange/votes.h"

namespace carafe {

// Sizes of a gradient's factors, see StepFactors.
struct FactorShape {
  int64_t rows = 0;
  int64_t a_width = 0;
  int64_t b_width = 0;
};

// One learnable parameter blob. The index of a parameter is its place in Caffe's learnable order;
// in memory all gradients lie in one arena, in the order of the backward pass. Memory is not owned
// and outlives the exchange.
template <typename T>
struct ParamInfo {
  std::string name;
  int64_t count = 0;
  T* value = nullptr;
  T* gradient = nullptr;                 // of this rank's worker 0
  int64_t arena_offset = 0;              // of the gradient, in elements from the arena's start
  std::vector<T*> other_gradients = {};  // of this rank's workers 1, 2, ..; arenas like worker 0's
  // Where `value` and the gradients lie. Memory of a device is read and written with the stream of
  // the worker that it belongs to, and staged in host memory to be sent.
  DeviceKind memory = DeviceKind::kCpu;
  const Codec* codec = nullptr;  // encodes the gradient on the wire; null: sent as it is
  // What the layers can offer in place of the gradient, all passes of a step together; rows 0:
  // nothing. The rows are those of this rank's worker 0.
  FactorShape factors = {};
  std::vector<int64_t> other_factor_rows = {};  // of this rank's workers 1, 2, ..
  // False: what is summed is no gradient, and the update is a mean (running statistics). It has no
  // history and no part in the norm of the gradients.
  bool learned = true;
};

// A gradient, or some rows of it, as a product of two matrices, both row-major: gradient (a_width x
// b_width) = scale A^T B. Row k is the contribution of row k of the batch of one worker in one pass
// of one layer.
template <typename T>
struct StepFactors {
  const T* a = nullptr;  // rows x a_width: the top diff of an inner product
  const T* b = nullptr;  // rows x b_width: its bottom data
  FactorShape shape;
  T scale = 1;  // the weight of the worker
};

// Elements [first, first + count) of a parameter.
struct Shard {
  int64_t first = 0;
  int64_t count = 0;
};

// One application of the update rule to a shard, in memory of the strategy: `count` elements each.
template <typename T>
struct ShardUpdate {
  int param = 0;
  Shard shard;
  T* value = nullptr;           // updated in place
  T* gradient = nullptr;        // the plain sum over all workers; set to 0
  std::span<T* const> history;  // ExchangeSetup::history_slots slots of the update rule
  int64_t clock = 0;            // the step, counted from 0, whose gradients these are
  // With ExchangeSetup::update_needs_all: the sum of squares of all parameters' sums in this clock.
  double squares = 0;
};

// Where a tensor belongs in the history of the update rule.
struct HistoryPart {
  int param = 0;
  int slot = 0;
  Shard shard;
};

// A tensor that the strategy must find again when training resumes (a residual, the history of a
// shard), under a name that is unique on all ranks. Valid after Drain until the next call, and may
// be written then.
template <typename T>
struct StateTensor {
  std::string name;
  T* data = nullptr;
  int64_t count = 0;
  std::optional<HistoryPart> history = {};  // none: no part of the rule's history
};

struct ExchangeStats {
  double wait_seconds = 0;  // of worker 0, in all calls so far
  int64_t bytes_sent = 0;   // payload that this rank sent
  int64_t bytes_received = 0;
  int64_t steps = 0;
};

// AwaitValue, GradientReady, FactorsReady and Drain are called by the threads of the workers, each
// for itself, and Vote by any of them; the rest by the thread of worker 0 while the others rest. A
// call that waits throws CommError as Group's calls do; after that only the destructor may be
// called.
template <typename T>
class Exchange {
 public:
  virtual ~Exchange() = default;

  // Returns when the value may be read: with every update of the steps so far or, in a strategy
  // with staleness s, of all but the last s steps. May run updates on the calling thread.
  virtual void AwaitValue(int worker, int param, Stream& stream) = 0;
  // AwaitValue for all parameters: also for those that no layer reads.
  virtual void FinishReads(int worker, Stream& stream) { Drain(worker, stream); }
  // The number of steps whose updates are in the value that this rank's workers read now.
  virtual int64_t clock(int /*param*/) const { return stats().steps; }

  // From here until p's update the gradient belongs to the exchange. Each parameter once a step.
  virtual void GradientReady(int worker, int param, Stream& stream) = 0;
  // Where true, the layer offers factors in place of the gradient, which it does not compute.
  // Constant during the life of the exchange.
  virtual bool WantsFactors(int /*param*/) const { return false; }
  // The factors of one layer in one pass: rows follow those of earlier calls of this step, at most
  // ParamInfo::factors in all; missing rows count as 0. GradientReady ends the step's offers. The
  // factors are copied before this returns: their memory is used again by other layers.
  virtual void FactorsReady(int /*worker*/, int /*param*/, const StepFactors<T>& /*factors*/,
                            Stream& /*stream*/) {
    throw InternalError("factors were offered to an exchange that takes gradients");
  }

  // Before FinishStep; at the latest just before it.
  virtual void Vote(const StepVotes& mine) = 0;
  virtual void FinishStep() = 0;
  // Once a step, after FinishStep and before the next AwaitValue. A strategy with staleness s gives
  // the verdict of the step s before this one; in the first s steps one without votes.
  virtual StepVotes AwaitVerdict() = 0;
  // How many steps the verdicts of AwaitVerdict, and at most the values, lag behind.
  virtual int staleness() const { return 0; }
  // After Drain: the verdicts that AwaitVerdict has not given, oldest first; it will not give them.
  virtual std::vector<StepVotes> TakeVerdicts() { return {}; }
  // After AwaitVerdict, if a vote was bad: discards the pending updates, which are all of this
  // step. The gradients hold sums, or parts of them. A strategy that owns parameters cannot take
  // updates back: there it does nothing.
  virtual void Cancel() = 0;
  // All pending sums are complete and all updates done; every rank has the same values.
  virtual void Drain(int worker, Stream& stream) = 0;

  // The part of a parameter that this rank updates by update_shard, with history of its own. None:
  // update() is called for the whole parameter, and its history is the caller's.
  virtual std::optional<Shard> owned_shard(int /*param*/) const { return std::nullopt; }
  // Whether owned_shard is the whole parameter on every rank, each with a history of its own.
  virtual bool every_rank_has_history() const { return false; }
  virtual std::vector<StateTensor<T>> state() { return {}; }
  // Element k: how often a worker of this rank began to read a bucket of values that lacked the
  // updates of k steps. Empty for synchronous strategies.
  virtual std::vector<int64_t> staleness_seen() const { return {}; }

  virtual ExchangeStats stats() const = 0;
  // By parameter: seconds from the first gradient of worker 0 in the last step until this one.
  virtual std::vector<double> ready_times() const = 0;
};

template <typename T>
struct ExchangeSetup {
  Group& group;                          // outlives the exchange
  std::span<const ParamInfo<T>> params;  // copied; equal names, counts and offsets on all ranks
  // Called on a compute thread with that worker's stream; the gradient of worker 0 holds the plain
  // sum over all workers of all ranks. If rank 0 alone updates: called on rank 0.
  std::function<void(int param, Stream& stream)> update;
  // Called instead of update on ranks whose new values came from another rank. May be empty.
  std::function<void(int param, Stream& stream)> received = {};
  // The update rule on one shard, for strategies that own parameters: on a thread of the strategy
  // at the owner, one call at a time, with a stream of the CPU. Where every rank runs the rule
  // (ServerUpdate::kArrival): on any thread of a worker, for whole parameters, with the gradient of
  // this rank times the number of ranks. May be empty for the others.
  std::function<void(const ShardUpdate<T>& update, Stream& stream)> update_shard = {};
  // Of the exchange "local" (local_steps.cpp): whether the step that ends now is the last of its
  // round; called by AwaitVerdict. Empty: each step is a round.
  std::function<bool()> ends_round = {};
  double outer_rate = 1, outer_momentum = 0;  // of its outer step
  int history_slots = 0;                      // of the update rule, per element
  bool split_params = true;                   // false: the rule needs whole parameters
  int staleness = 0;                          // steps that a value may lag behind; synchronous: 0
  ServerSettings server = {};                 // of the stale server; synchronous: the defaults
  int workers = 1;                            // of this rank, and of every other
  bool update_needs_all = false;          // clip_gradients: no update before every sum is complete
  size_t bucket_bytes = size_t{4} << 20;  // gradients that are sent together
  std::vector<int> bucket_sizes = {};     // instead: parameters per bucket, in the arena's order
  bool overlap = true;                    // false: nothing is sent before FinishStep
  SchemeSettings scheme = {};
};

// What a sum over all ranks costs: latency + per_byte * bytes, in seconds.
struct SumCost {
  double latency = 0;
  double per_byte = 0;
};
// A collective call that takes some milliseconds: rank 0's measurement of what a sum costs by this
// exchange, for every rank.
SumCost MeasureSumCost(Group& group, const std::string& exchange, const SchemeSettings& scheme);
// The size of messages that keeps such a line busy: those in flight (three to a peer) take about
// 1.5 ms. More would queue up in the network, where replies wait behind them; less would leave the
// line idle while the next message is handed over.
size_t MessageBytesFor(const SumCost& cost);
// Parameters per bucket for which the sums of a step end earliest; rank 0's answer for every rank.
template <typename T>
std::vector<int> PlanBuckets(Group& group, std::span<const ParamInfo<T>> params,
                             const std::vector<double>& ready_times, const SumCost& cost);

// One line for the log: who sends what to whom, and by which backend. "" with one rank.
std::string DescribeExchange(const Group& group, const std::string& exchange,
                             const SchemeSettings& scheme);

// A collective call: the ranks compare their plans. With one rank every synchronous exchange is the
// same: no thread, update(p) at AwaitValue. Throws ConfigError for an unknown name (listing those
// that are built) or for plans that differ, naming rank and parameter.
template <typename T>
std::unique_ptr<Exchange<T>> MakeExchange(const std::string& name, const ExchangeSetup<T>& setup);

}  // namespace carafe
