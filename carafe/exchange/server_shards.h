// The stale server of one rank without threads: memory, transfers and updates of its shards. The
// strategy (stale_server.cpp) and the simulator run it on an engine. Two kinds: Shards (shards.h),
// whose owners apply clocks, and DeltaShards (delta_shards.h), whose owners add what arrives.
//
// A clock is one step of a rank. Clock c uses slot c mod (s + 1) of everything, so that s + 1
// clocks can be in progress. A value has clock c if it holds the updates of all ranks in the steps
// before c.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "carafe/core/stream.h"
#include "carafe/exchange/engine.h"
#include "carafe/exchange/exchange.h"
#include "carafe/exchange/shard_layout.h"

namespace carafe {

struct ShardSettings {
  int rank = 0;
  int size = 1;
  int staleness = 0;
  int history_slots = 0;
  bool norms = false;         // updates need ShardUpdate::squares
  int64_t message_bytes = 0;  // about, of one message
  HostLayout hosts = {};      // gives the order of sums, as in allreduce
  ServerSettings server = {};
};

// Of the engine that runs ServerShards::transfers(). Started transfers are complete one step later.
struct ShardTransfers {
  std::function<int64_t(int transfer)> steps;  // that are complete
  std::function<void(int transfer)> start;     // Engine::OnReady
  std::function<void(int transfer)> listen;    // Engine::Listen
};

// This rank's gradient of a bucket in one step.
template <typename T>
struct Offer {
  int64_t clock = 0;      // the step
  int64_t read = 0;       // the clock of the values that it was computed with
  std::vector<T*> parts;  // of this rank's workers, `count` of the bucket each; become 0
};

// Advance is called by one thread at a time, and so are the functions of one bucket; these threads
// may differ. Clocks keep their memory apart, see the order of calls at each function.
template <typename T>
class ServerShards {
 public:
  using Transfers = ShardTransfers;

  virtual ~ServerShards() = default;

  // For an engine of elements T. Memory is this object's.
  virtual const std::vector<Transfer>& transfers() const = 0;
  virtual const std::vector<ShardedBucket>& buckets() const = 0;
  // The elements of a parameter whose history this rank keeps, and that history.
  virtual Shard owned(int param) const = 0;
  virtual std::vector<StateTensor<T>> state() = 0;

  // Once, before the first step.
  virtual void Begin(const Transfers& /*transfers*/) {}

  // Puts this rank's update of a clock in the memory of SumOf, which is then to be started together
  // with Expected. From when the values have clock - s, at least.
  virtual void Take(const Offer<T>& offer, int bucket, Stream& stream) = 0;
  virtual int SumOf(int64_t clock, int bucket) const = 0;
  // What other ranks send for the same clock, to be expected (Engine::Expect) before SumOf starts.
  virtual std::span<const int> Expected(int64_t /*clock*/, int /*bucket*/) const { return {}; }

  // Updates the own shards with what has arrived, and starts to send the values of clocks that are
  // complete, most urgent first.
  virtual void Advance(const Transfers& transfers) = 0;

  // The clock of the newest values that are here from all owners; `at_least` is known already.
  virtual int64_t ValueClock(int bucket, int64_t at_least, const Transfers& transfers) const = 0;
  // Copies a parameter's values with this clock, which is the newest, or older by less than s, as
  // step `step` of this rank is to read them.
  virtual void CopyValues(int64_t clock, int64_t step, int bucket, const PlacedParam& param,
                          T* to) = 0;
  // They become other ones, on all ranks alike. Every rank has made `clock` steps.
  virtual void SetValues(int64_t clock, int bucket, const PlacedParam& param, const T* from) = 0;
};

}  // namespace carafe
