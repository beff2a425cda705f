// Shards of a stale server (server_shards.h) whose owners apply each clock once. For each bucket
// and clock:
//   1. this rank's gradient is put in its slot and goes to the owners, who add (SumAtShards);
//   2. the owner updates its shard, in the order of the clocks;
//   3. the new values go to all ranks (SpreadFromShards). Once a rank has them from all owners, its
//      copy of the bucket has clock c + 1: the number of clocks whose updates it holds.
// With norms (clip_gradients), between 1 and 2: when all buckets of the clock are summed, every
// owner sends the squares of its blocks to all, who add them in the order of the parameters.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "carafe/exchange/server_shards.h"

namespace carafe {

template <typename T>
class Shards final : public ServerShards<T> {
 public:
  using typename ServerShards<T>::Transfers;
  using Update = std::function<void(const ShardUpdate<T>&)>;

  Shards(const ShardSettings& settings, std::vector<ShardedBucket> buckets,
         std::span<const ParamInfo<T>> params, Update update);

  const std::vector<Transfer>& transfers() const override { return transfers_; }
  const std::vector<ShardedBucket>& buckets() const override { return buckets_; }
  Shard owned(int param) const override { return At(owned_, param); }
  std::vector<StateTensor<T>> state() override;

  void Take(const Offer<T>& offer, int bucket, Stream& stream) override;
  // The memory for this rank's gradient of a clock.
  T* gradient(int64_t clock, int bucket) { return MemoryOf(SumOf(clock, bucket)); }
  int SumOf(int64_t clock, int bucket) const override {
    return SlotOf(clock) * Count(buckets_) + bucket;
  }
  void Advance(const Transfers& transfers) override;
  int64_t ValueClock(int bucket, int64_t at_least, const Transfers& transfers) const override;
  // They stay as they are until this rank's gradient of step clock + s is started.
  T* values(int64_t clock, int bucket) { return MemoryOf(ValuesOf(clock - 1, bucket)); }
  void CopyValues(int64_t clock, int64_t step, int bucket, const PlacedParam& param,
                  T* to) override;
  void SetValues(int64_t clock, int bucket, const PlacedParam& param, const T* from) override;

 private:
  // What this rank owns of one parameter.
  struct Piece {
    int param = 0;
    Shard shard;
    int64_t offset = 0;       // of the shard, in the bucket
    std::vector<T*> history;  // by slot of the rule
  };

  int SlotOf(int64_t clock) const { return static_cast<int>((clock + slots_) % slots_); }
  int ValuesOf(int64_t clock, int bucket) const { return values_from_ + SumOf(clock, bucket); }
  int NormOf(int64_t clock) const { return norms_from_ + SlotOf(clock); }
  bool Complete(const Transfers& transfers, int transfer, int64_t clock) const;
  T* MemoryOf(int transfer) { return At(memory_, transfer).data(); }

  void AddTransfers(int64_t message);
  void AddNorms();
  void OrderSends();
  void AddPieces(std::span<const ParamInfo<T>> params);
  bool AdvanceWithNorms(const Transfers& transfers);
  void SendSquares(const Transfers& transfers);
  double Squares(int64_t clock);
  void UpdateBucket(int bucket, double squares, const Transfers& transfers);

  const ShardSettings settings_;
  const int slots_;  // s + 1
  const std::vector<ShardedBucket> buckets_;
  const Update update_;
  std::vector<int> urgent_first_;  // buckets: the backward pass ends with what Forward needs
  std::vector<Shard> owned_;       // by parameter
  std::vector<std::vector<Piece>> pieces_;  // by bucket
  std::vector<std::vector<T>> history_;     // of all pieces, slot by slot
  std::vector<std::string> names_;          // of the parameters
  std::vector<std::vector<T>> memory_;      // by transfer
  std::vector<Transfer> transfers_;         // sums, values, then norms, each slot by slot
  int values_from_ = 0, norms_from_ = 0;    // transfers
  std::vector<int64_t> next_;  // by bucket: the clock with which its own shard is updated next
  // Norms. A double takes `kPerDouble` elements of the transfer.
  static constexpr int64_t kPerDouble = sizeof(double) / sizeof(T);
  std::vector<int64_t> square_of_;  // where each block's is: blocks in the order of the parameters
  std::vector<size_t> blocks_before_;  // by parameter: its first place in square_of_
  std::vector<char> learned_;          // by parameter
  bool squares_sent_ = false;          // of the clock that is updated next
  // Of what is being sent, by transfer, for SendOrder: the clock, and the clock that was read.
  std::vector<int64_t> sent_clock_, read_clock_;
};

}  // namespace carafe
