#include "carafe/exchange/delta_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/exchange/elements.h"
#include "carafe/exchange/send_order.h"

namespace carafe {

using Kind = Operation::Kind;

template <typename T>
DeltaShards<T>::DeltaShards(const ShardSettings& settings, std::vector<ShardedBucket> buckets,
                            std::span<const ParamInfo<T>> params, Update update)
    : settings_(settings),
      slots_(settings.staleness + 1),
      buckets_(std::move(buckets)),
      params_(params.begin(), params.end()),
      update_(std::move(update)),
      history_(params.size()),
      owned_(buckets_.size()) {
  for (size_t p = 0; p < params_.size(); ++p)
    for (int h = 0; params_[p].learned && h < settings.history_slots; ++h)
      history_[p].emplace_back(static_cast<size_t>(params_[p].count));
  for (int b = 0; b < Count(buckets_); ++b) {
    const std::vector<int64_t>& bounds = At(buckets_, b).bounds;
    Owned& owned = At(owned_, b);
    owned.values.resize(
        static_cast<size_t>(At(bounds, settings.rank + 1) - At(bounds, settings.rank)));
    owned.added.resize(static_cast<size_t>(settings.size));
  }
  AddTransfers(std::max<int64_t>(settings.message_bytes / static_cast<int64_t>(sizeof(T)), 1));
  for (int t = 0; t < Count(transfers_); ++t) At(transfers_, t).data = MemoryOf(t);
  if (settings.server.consistency == Consistency::kManaged) OrderSends();
}

template <typename T>
void DeltaShards<T>::AddTransfers(int64_t message) {
  const auto add = [&](const ShardedBucket& bucket, int64_t count, std::vector<Program> chunks) {
    int first = INT32_MAX;  // parameter
    for (const PlacedParam& placed : bucket.params) first = std::min(first, placed.param);
    memory_.emplace_back(static_cast<size_t>(count));
    transfers_.push_back({.count = count, .priority = first, .chunks = std::move(chunks)});
  };
  for (int slot = 0; slot < slots_; ++slot)
    for (int b = 0; b < Count(buckets_); ++b) {
      const ShardedBucket& bucket = At(buckets_, b);
      std::vector<int>& expected = expected_.emplace_back();
      for (int source = 0; source < settings_.size; ++source) {
        if (source != settings_.rank) expected.push_back(Count(transfers_));
        add(bucket, source == settings_.rank ? bucket.count : Count(At(owned_, b).values),
            SendToOwners(bucket.bounds, settings_.rank, source, message));
      }
    }
  values_from_ = Count(transfers_);
  for (int slot = 0; slot < slots_; ++slot)
    for (const ShardedBucket& bucket : buckets_)
      add(bucket, bucket.count + 2 * settings_.size, SpreadWithCounts(bucket, message));
}

// The numbers are a chunk of their own: one element from every owner to every rank.
template <typename T>
std::vector<Program> DeltaShards<T>::SpreadWithCounts(const ShardedBucket& bucket,
                                                      int64_t message) const {
  const int rank = settings_.rank, size = settings_.size;
  std::vector<Program> chunks = SpreadFromShards(bucket.bounds, rank, message);
  if (bucket.count == 0) return chunks;
  const auto owns = [&](int r) { return At(bucket.bounds, r) < At(bucket.bounds, r + 1); };
  Program& numbers = chunks.emplace_back();
  for (int i = 1; i < size && owns(rank); ++i) {
    const int64_t to = (rank + i) % size;
    numbers.push_back({Kind::kSend, static_cast<int>(to), bucket.count + to, bucket.count + to + 1,
                       /*label=*/0});
  }
  for (int i = 1; i < size; ++i) {
    const int owner = (rank + i) % size;
    const int64_t at = bucket.count + size + owner;
    if (owns(owner)) numbers.push_back({Kind::kReceive, owner, at, at + 1, /*label=*/0});
  }
  return chunks;
}

template <typename T>
void DeltaShards<T>::OrderSends() {
  sent_clock_.resize(transfers_.size());
  read_clock_.resize(transfers_.size());
  const SendOrder order = settings_.server.order;
  for (int slot = 0; slot < slots_; ++slot)
    for (int b = 0; b < Count(buckets_); ++b) {
      const int own = DeltaOf(slot, b, settings_.rank), values = ValuesOf(slot, b);
      At(transfers_, own).send_priority = [this, order, own, b](const Operation& send) {
        const int64_t clock = At(sent_clock_, own);
        return SendPriority<T>(
            order, clock, MemoryOf(own) + send.begin,
            ValuesAt(At(read_clock_, own), b) + send.begin, send.end - send.begin,
            static_cast<uint64_t>(clock) << 32 ^ static_cast<uint64_t>(send.begin));
      };
      At(transfers_, values).send_priority = [this, order, values](const Operation&) {
        return ValuePriority(order, At(sent_clock_, values));
      };
    }
}

template <typename T>
std::vector<StateTensor<T>> DeltaShards<T>::state() {
  std::vector<StateTensor<T>> tensors;
  for (int p = 0; p < Count(params_); ++p)
    for (int h = 0; h < Count(At(history_, p)); ++h)
      tensors.push_back(
          {.name = fmt::format("history {} of {}, rank {}", h, At(params_, p).name, settings_.rank),
           .data = At(At(history_, p), h).data(),
           .count = At(params_, p).count,
           .history = HistoryPart{p, h, owned(p)}});
  return tensors;
}

template <typename T>
void DeltaShards<T>::Begin(const Transfers& transfers) {
  for (const std::vector<int>& of_clock : expected_)
    for (const int transfer : of_clock) transfers.listen(transfer);
}

template <typename T>
void DeltaShards<T>::Take(const Offer<T>& offer, int bucket, Stream& stream) {
  const ShardedBucket& b = At(buckets_, bucket);
  const int own = SumOf(offer.clock, bucket);
  if (!sent_clock_.empty()) {
    At(sent_clock_, own) = offer.clock;
    At(read_clock_, own) = offer.read;
  }
  if (b.count == 0) return;
  T* const gradient = offer.parts.front();
  const std::vector<const void*> parts(offer.parts.begin(), offer.parts.end());
  ElementsOf<T>().sum(parts, b.count, gradient);
  for (size_t w = 1; w < offer.parts.size(); ++w) std::fill_n(offer.parts[w], b.count, T(0));
  // The rule divides by the workers of all ranks; these are the gradients of one.
  const T ranks = static_cast<T>(settings_.size);
  for (int64_t i = 0; i < b.count; ++i) gradient[i] *= ranks;
  for (const PlacedParam& placed : b.params) {
    if (placed.count == 0) continue;
    const ParamInfo<T>& param = At(params_, placed.param);
    T* const change = MemoryOf(own) + placed.offset;
    std::copy_n(param.value, placed.count, change);
    std::vector<T*> history;
    for (std::vector<T>& slot : At(history_, placed.param)) history.push_back(slot.data());
    update_({.param = placed.param,
             .shard = {0, placed.count},
             .value = change,
             .gradient = gradient + placed.offset,
             .history = history,
             .clock = offer.clock},
            stream);
    // Running statistics are means, whatever the changes are.
    const bool sum = settings_.server.combine == Combine::kSum && param.learned;
    const T share = sum ? T(1) : T(1) / ranks;
    for (int64_t i = 0; i < placed.count; ++i) change[i] = (change[i] - param.value[i]) * share;
  }
}

template <typename T>
void DeltaShards<T>::Advance(const Transfers& transfers) {
  std::lock_guard lock(mutex_);
  for (int b = Count(buckets_); b-- > 0;) {  // the backward pass ends with what Forward needs
    const Owned& owned = At(owned_, b);
    for (;;) {
      AddArrived(b, transfers);
      if (*std::ranges::min_element(owned.added) == owned.clock) break;
      SendCopy(b, transfers);
    }
  }
}

// The changes of a rank are added in the order of their clocks.
template <typename T>
void DeltaShards<T>::AddArrived(int bucket, const Transfers& transfers) {
  Owned& owned = At(owned_, bucket);
  for (int source = 0; source < settings_.size; ++source) {
    int64_t& clock = At(owned.added, source);
    for (; clock < owned.clock + slots_; ++clock) {
      const int transfer = DeltaOf(clock, bucket, source);
      if (!Complete(transfers, transfer, clock)) break;
      Ensure(transfers.steps(transfer) == clock / slots_ + 1,
             "a shard is updated with the change of another clock");
      const T* change = MemoryOf(transfer);
      if (source == settings_.rank) change += At(At(buckets_, bucket).bounds, source);
      for (size_t i = 0; i < owned.values.size(); ++i) owned.values[i] += change[i];
    }
  }
}

template <typename T>
void DeltaShards<T>::SendCopy(int bucket, const Transfers& transfers) {
  Owned& owned = At(owned_, bucket);
  const int64_t clock = owned.clock++;
  Ensure(transfers.steps(ValuesOf(clock, bucket)) == clock / slots_,
         "a shard is copied while the copy of an older clock is being sent");
  T* const values = ValuesAt(clock + 1, bucket);
  std::ranges::copy(owned.values, values + At(At(buckets_, bucket).bounds, settings_.rank));
  for (int r = 0; r < settings_.size; ++r) {
    const int64_t ahead = At(owned.added, r) - (clock + 1);
    Ensure(ahead >= 0 && ahead <= settings_.staleness,
           "a rank is ahead by more than the staleness");
    CountsFor(values, bucket)[r] = static_cast<T>(ahead);
  }
  CountsFrom(values, bucket)[settings_.rank] = CountsFor(values, bucket)[settings_.rank];
  // First, so that nobody expects the next changes before this rank listens.
  for (const int transfer : Expected(clock, bucket)) transfers.listen(transfer);
  if (!sent_clock_.empty()) At(sent_clock_, ValuesOf(clock, bucket)) = clock;
  transfers.start(ValuesOf(clock, bucket));
}

template <typename T>
int64_t DeltaShards<T>::ValueClock(int bucket, int64_t at_least, const Transfers& transfers) const {
  int64_t clock = at_least;
  while (Complete(transfers, ValuesOf(clock, bucket), clock)) ++clock;
  return clock;
}

template <typename T>
void DeltaShards<T>::CopyValues(int64_t clock, int64_t step, int bucket, const PlacedParam& param,
                                T* to) {
  T* const values = ValuesAt(clock, bucket);
  for (int owner = 0; owner < settings_.size; ++owner) {
    const Shard part = OwnedPart(At(buckets_, bucket), param, owner);
    if (part.count == 0) continue;
    const int64_t begin = param.offset + part.first;
    std::copy_n(values + begin, part.count, to + part.first);
    const auto added = clock + static_cast<int64_t>(CountsFrom(values, bucket)[owner]);
    for (int64_t c = added; c < step; ++c) {
      const T* change = MemoryOf(SumOf(c, bucket)) + begin;
      for (int64_t i = 0; i < part.count; ++i) to[part.first + i] += change[i];
    }
  }
}

// Changes that other ranks made to the new values may have come already: they stay.
template <typename T>
void DeltaShards<T>::SetValues(int64_t clock, int bucket, const PlacedParam& param, const T* from) {
  if (param.count == 0) return;
  T* const values = ValuesAt(clock, bucket) + param.offset;
  const Shard mine = OwnedPart(At(buckets_, bucket), param, settings_.rank);
  {
    std::lock_guard lock(mutex_);
    Owned& owned = At(owned_, bucket);
    const int64_t begin =
        param.offset + mine.first - At(At(buckets_, bucket).bounds, settings_.rank);
    for (int64_t i = 0; i < mine.count; ++i) {
      T& value = At(owned.values, begin + i);
      const T old = values[mine.first + i], set = from[mine.first + i];
      value = value == old ? set : set + (value - old);
    }
  }
  std::copy_n(from, param.count, values);
}

template class DeltaShards<float>;
template class DeltaShards<double>;

}  // namespace carafe
