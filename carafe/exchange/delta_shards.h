// Shards of a stale server (server_shards.h) whose owners add what arrives, after Bösen. Every rank
// runs the update rule on its own gradient, with a history of its own, and sends the change. For
// each bucket and clock:
//   1. the change goes to the owners, each of whom adds it to its shard at once;
//   2. when the changes of all ranks for the clock have come, the owner sends a copy of its shard
//      to all ranks. It holds all changes of this clock and the ones before, and those of later
//      clocks that came early. Beside it goes the number of the receiver's own changes in it.
// What a rank reads are the newest copies and, of its own changes, those that a copy lacks. So
// every change counts once, and a rank sees its own at once.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "carafe/exchange/server_shards.h"

namespace carafe {

template <typename T>
class DeltaShards final : public ServerShards<T> {
 public:
  using typename ServerShards<T>::Transfers;
  // The rule, on a whole parameter, with the gradient as if all ranks had this rank's.
  using Update = std::function<void(const ShardUpdate<T>&, Stream&)>;

  // The values and gradients of the parameters are used.
  DeltaShards(const ShardSettings& settings, std::vector<ShardedBucket> buckets,
              std::span<const ParamInfo<T>> params, Update update);

  const std::vector<Transfer>& transfers() const override { return transfers_; }
  const std::vector<ShardedBucket>& buckets() const override { return buckets_; }
  Shard owned(int param) const override { return {0, At(params_, param).count}; }
  std::vector<StateTensor<T>> state() override;

  void Begin(const Transfers& transfers) override;
  // The parameters have the values that this rank read. The rule runs here.
  void Take(const Offer<T>& offer, int bucket, Stream& stream) override;
  int SumOf(int64_t clock, int bucket) const override {
    return DeltaOf(clock, bucket, settings_.rank);
  }
  std::span<const int> Expected(int64_t clock, int bucket) const override {
    return At(expected_, SlotOf(clock) * Count(buckets_) + bucket);
  }
  void Advance(const Transfers& transfers) override;
  int64_t ValueClock(int bucket, int64_t at_least, const Transfers& transfers) const override;
  void CopyValues(int64_t clock, int64_t step, int bucket, const PlacedParam& param,
                  T* to) override;
  void SetValues(int64_t clock, int bucket, const PlacedParam& param, const T* from) override;

 private:
  // The own shard of a bucket.
  struct Owned {
    std::vector<T> values;
    std::vector<int64_t> added;  // by rank: the number of its changes in `values`
    int64_t clock = 0;           // of the copy that is sent next, less 1
  };

  int SlotOf(int64_t clock) const { return static_cast<int>((clock + slots_) % slots_); }
  int DeltaOf(int64_t clock, int bucket, int source) const {
    return (SlotOf(clock) * Count(buckets_) + bucket) * settings_.size + source;
  }
  int ValuesOf(int64_t clock, int bucket) const {
    return values_from_ + SlotOf(clock) * Count(buckets_) + bucket;
  }
  T* MemoryOf(int transfer) { return At(memory_, transfer).data(); }
  T* ValuesAt(int64_t clock, int bucket) { return MemoryOf(ValuesOf(clock - 1, bucket)); }
  // Beside the values of a transfer, by rank: how many changes of a rank are in this rank's copy,
  // less the clock; and how many of this rank's are in that one's.
  T* CountsFor(T* values, int bucket) const { return values + At(buckets_, bucket).count; }
  T* CountsFrom(T* values, int bucket) const { return CountsFor(values, bucket) + settings_.size; }
  bool Complete(const Transfers& transfers, int transfer, int64_t clock) const {
    return transfers.steps(transfer) > clock / slots_;
  }
  void AddTransfers(int64_t message);
  void OrderSends();
  std::vector<Program> SpreadWithCounts(const ShardedBucket& bucket, int64_t message) const;
  void AddArrived(int bucket, const Transfers& transfers);
  void SendCopy(int bucket, const Transfers& transfers);

  const ShardSettings settings_;
  const int slots_;  // s + 1
  const std::vector<ShardedBucket> buckets_;
  const std::vector<ParamInfo<T>> params_;
  const Update update_;
  std::vector<std::vector<std::vector<T>>> history_;  // by parameter and slot of the rule
  std::vector<std::vector<T>> memory_;                // by transfer
  std::vector<Transfer> transfers_;                   // changes, then values, each slot by slot
  int values_from_ = 0;
  std::vector<std::vector<int>> expected_;  // by slot and bucket: the other ranks' changes
  std::mutex mutex_;                        // guards owned_
  std::vector<Owned> owned_;                // by bucket
  // Of what is being sent, by transfer, for SendOrder: the clock, and the clock that was read.
  std::vector<int64_t> sent_clock_, read_clock_;
};

}  // namespace carafe
