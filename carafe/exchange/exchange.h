// How the workers come to agree on the parameters. A strategy knows neither Net nor Solver. Every
// rank makes the same calls, for each of its workers w, in every step:
//   forward   AwaitValue(w, p, stream)     before a layer reads parameter p
//   votes     Vote(votes)                  once, as soon as the losses are known, so that they
//                                          travel while the backward pass computes
//   backward  GradientReady(w, p, stream)  p's gradient is final: start moving it, do not block
//   step      FinishStep()                 every gradient of this step has been announced
//             AwaitVerdict()               the votes of all ranks, summed; then either go on, or
//             Cancel()                     throw the step away
//   border    Drain(w, stream)             after Forward, before a test or a snapshot: nothing is
//                                          on its way
// The strategy calls update(p) when p's sum over all workers is there, on every rank, or on rank 0
// alone, which then hands the values out: in AwaitValue(p), or before, in a call that would wait
// for something else; where rank 0 alone updates and nobody's votes are bad, already in
// GradientReady, so that values travel while the backward pass computes. Strategies that send
// factors instead of gradients will add FactorsReady(w, p, a, b, stream) beside GradientReady.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "carafe/comm/group.h"
#include "carafe/core/stream.h"
#include "carafe/exchange/scheme.h"

namespace carafe {

// One learnable parameter blob. The index of a parameter is its place in Caffe's learnable order;
// in memory all gradients lie in one arena, in the order of the backward pass. Memory is not owned
// and outlives the exchange.
template <typename T>
struct ParamInfo {
  std::string name;
  int64_t count = 0;
  T* value = nullptr;
  T* gradient = nullptr;
  int64_t arena_offset = 0;              // of the gradient, in elements from the arena's start
  std::vector<T*> other_gradients = {};  // of this rank's workers 1, 2, ..; arenas like worker 0's
};

// What each rank says at the end of a step; the verdict is the sum over ranks, in the fixed tree.
// Trivially copyable doubles only.
struct StepVotes {
  double loss = 0;       // to be divided by weight
  double weight = 0;     // 1 per worker that has a loss
  double stop = 0;       // > 0: someone was asked to stop
  double terminate = 0;  // > 0: someone was told to stop with a snapshot (SIGTERM)
  double snapshot = 0;   // > 0: someone was asked for a snapshot
  double bad = 0;        // > 0: someone saw a NaN or an infinite loss
};

struct ExchangeStats {
  double wait_seconds = 0;  // of worker 0, in all calls since the start
  int64_t bytes_sent = 0;   // payload that this rank sent
  int64_t bytes_received = 0;
  int64_t steps = 0;
};

// AwaitValue, GradientReady and Drain are called by the threads of the workers, each for itself,
// Vote by any of them; the rest by the thread of worker 0 while the others rest. A call that waits
// throws CommError as Group's calls do; after that only the destructor may be called.
template <typename T>
class Exchange {
 public:
  virtual ~Exchange() = default;
  // If p's update is pending: waits for its sum, then runs update(p) on the calling thread.
  virtual void AwaitValue(int worker, int param, Stream& stream) = 0;
  // From here until p's update the gradient belongs to the exchange. Each parameter once a step.
  virtual void GradientReady(int worker, int param, Stream& stream) = 0;
  // Before FinishStep; at the latest just before it.
  virtual void Vote(const StepVotes& mine) = 0;
  virtual void FinishStep() = 0;
  // Once a step, after FinishStep and before the next AwaitValue.
  virtual StepVotes AwaitVerdict() = 0;
  // After AwaitVerdict, if the votes were bad: forgets the pending updates, which are all of this
  // step's. The gradients hold sums, or parts of them.
  virtual void Cancel() = 0;
  // All pending sums are in, and all updates done.
  virtual void Drain(int worker, Stream& stream) = 0;
  virtual ExchangeStats stats() const = 0;
  // By parameter: seconds from the first gradient of worker 0 in the last step until this one.
  virtual std::vector<double> ready_times() const = 0;
};

template <typename T>
struct ExchangeSetup {
  Group& group;                          // outlives the exchange
  std::span<const ParamInfo<T>> params;  // copied; equal names, counts and offsets on all ranks
  // On a compute thread, with the stream of whoever asked first; the gradient of worker 0 holds the
  // plain sum over all workers of all ranks. Where rank 0 alone updates: on rank 0.
  std::function<void(int param, Stream& stream)> update;
  // Instead of update, on ranks whose new values came from rank 0. May be empty.
  std::function<void(int param, Stream& stream)> received = {};
  int workers = 1;                        // of this rank, and of every other
  bool update_needs_all = false;          // clip_gradients: no update before every sum is in
  size_t bucket_bytes = size_t{4} << 20;  // gradients that travel together
  std::vector<int> bucket_sizes = {};     // instead: parameters per bucket, in the arena's order
  bool overlap = true;                    // off: nothing moves before FinishStep
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
// The size of messages that fills such a line: those under way (three to a peer) take about 1.5 ms.
// More at a time would queue up in the network, where replies wait behind them; less would let the
// line run dry while the next one is handed over.
size_t MessageBytesFor(const SumCost& cost);
// Parameters per bucket for which the sums of a step end earliest; rank 0's answer for every rank.
template <typename T>
std::vector<int> PlanBuckets(Group& group, std::span<const ParamInfo<T>> params,
                             const std::vector<double>& ready_times, const SumCost& cost);

// One line for the log: who sends what to whom, by what. "" with one rank.
std::string DescribeExchange(const Group& group, const std::string& exchange,
                             const SchemeSettings& scheme);

// A collective call: the ranks compare their plans. With one rank every strategy is the same plain
// one: no thread, update(p) at AwaitValue. Throws ConfigError for an unknown name (listing those
// that are built) or for plans that differ, naming rank and parameter.
template <typename T>
std::unique_ptr<Exchange<T>> MakeExchange(const std::string& name, const ExchangeSetup<T>& setup);

}  // namespace carafe
