#include "carafe/exchange/shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/core/stream.h"
#include "carafe/exchange/elements.h"
#include "carafe/exchange/send_order.h"
#include "carafe/kernels/math.h"

namespace carafe {
namespace {

// Visits the norm blocks of a parameter's part [first, first + count).
template <typename F>
void ForBlocks(const Shard& part, const F& visit) {
  for (int64_t at = part.first; at < part.first + part.count;) {
    const int64_t end = std::min((at / kNormBlock + 1) * kNormBlock, part.first + part.count);
    visit(at / kNormBlock, at, end - at);
    at = end;
  }
}

}  // namespace

template <typename T>
Shards<T>::Shards(const ShardSettings& settings, std::vector<ShardedBucket> buckets,
                  std::span<const ParamInfo<T>> params, Update update)
    : settings_(settings),
      slots_(settings.staleness + 1),
      buckets_(std::move(buckets)),
      update_(std::move(update)),
      owned_(params.size()),
      pieces_(buckets_.size()),
      next_(buckets_.size()) {
  for (int b = Count(buckets_); b-- > 0;) urgent_first_.push_back(b);
  for (const ParamInfo<T>& param : params) {
    names_.push_back(param.name);
    learned_.push_back(param.learned);
  }
  AddPieces(params);
  AddTransfers(std::max<int64_t>(settings.message_bytes / static_cast<int64_t>(sizeof(T)), 1));
  if (settings.norms) AddNorms();
  for (int t = 0; t < Count(transfers_); ++t) At(transfers_, t).data = MemoryOf(t);
  if (settings.server.consistency == Consistency::kManaged) OrderSends();
}

template <typename T>
void Shards<T>::AddPieces(std::span<const ParamInfo<T>> params) {
  for (int b = 0; b < Count(buckets_); ++b) {
    const ShardedBucket& bucket = At(buckets_, b);
    for (const PlacedParam& placed : bucket.params) {
      const Shard shard = OwnedPart(bucket, placed, settings_.rank);
      At(owned_, placed.param) = shard;
      if (shard.count == 0) continue;
      Piece& piece = At(pieces_, b).emplace_back();
      piece = {.param = placed.param, .shard = shard, .offset = placed.offset + shard.first};
      const int slots = At(params, placed.param).learned ? settings_.history_slots : 0;
      for (int h = 0; h < slots; ++h)  // the memory of a vector stays where it is when it is moved
        piece.history.push_back(history_.emplace_back(static_cast<size_t>(shard.count)).data());
    }
  }
}

template <typename T>
void Shards<T>::AddTransfers(int64_t message) {
  for (const bool values : {false, true}) {
    if (values) values_from_ = Count(transfers_);
    for (int slot = 0; slot < slots_; ++slot)
      for (const ShardedBucket& bucket : buckets_) {
        memory_.emplace_back(static_cast<size_t>(bucket.count));
        int first = INT32_MAX;  // parameter
        for (const PlacedParam& placed : bucket.params) first = std::min(first, placed.param);
        const auto write = values ? SpreadFromShards : SumAtShards;
        std::vector<Program> chunks = write(bucket.bounds, settings_.rank, message);
        for (Program& chunk : chunks) chunk = InOrderOf(settings_.hosts, std::move(chunk));
        transfers_.push_back(
            {.count = bucket.count, .priority = first, .chunks = std::move(chunks)});
      }
  }
  norms_from_ = Count(transfers_);
}

// Every rank has a run of doubles in the transfer: the squares of its blocks, in the order of the
// parameters.
template <typename T>
void Shards<T>::AddNorms() {
  struct Block {
    int param;
    int64_t block;
    int owner;
  };
  std::vector<Block> blocks;
  for (const ShardedBucket& bucket : buckets_)
    for (const PlacedParam& placed : bucket.params) {
      if (!At(learned_, placed.param)) continue;
      for (int r = 0; r < settings_.size; ++r)
        ForBlocks(OwnedPart(bucket, placed, r), [&](int64_t block, int64_t, int64_t) {
          blocks.push_back({placed.param, block, r});
        });
    }
  std::ranges::stable_sort(blocks, {}, [](const Block& b) { return std::pair(b.param, b.block); });
  std::vector<int64_t> bounds(static_cast<size_t>(settings_.size) + 1);
  for (const Block& block : blocks) ++At(bounds, block.owner + 1);
  for (size_t r = 1; r < bounds.size(); ++r) bounds[r] += bounds[r - 1];
  std::vector<int64_t> next(bounds.begin(), bounds.end() - 1);
  blocks_before_.resize(owned_.size() + 1);
  for (const Block& block : blocks) {
    square_of_.push_back(At(next, block.owner)++);
    At(blocks_before_, block.param + 1) = square_of_.size();
  }
  for (size_t p = 1; p < blocks_before_.size(); ++p)
    blocks_before_[p] = std::max(blocks_before_[p], blocks_before_[p - 1]);
  const int64_t count = bounds.back() * kPerDouble;
  for (int64_t& bound : bounds) bound *= kPerDouble;
  for (int slot = 0; slot < slots_; ++slot) {
    memory_.emplace_back(static_cast<size_t>(count));
    // Doubles must not be divided between messages.
    transfers_.push_back(
        {.count = count,
         .priority = -1,
         .chunks = SpreadFromShards(bounds, settings_.rank, std::max<int64_t>(count, 1))});
  }
}

template <typename T>
std::vector<StateTensor<T>> Shards<T>::state() {
  std::vector<StateTensor<T>> tensors;
  for (const std::vector<Piece>& pieces : pieces_)
    for (const Piece& piece : pieces)
      for (int h = 0; h < Count(piece.history); ++h)
        tensors.push_back({.name = fmt::format("history {} of {} from {}", h,
                                               At(names_, piece.param), piece.shard.first),
                           .data = At(piece.history, h),
                           .count = piece.shard.count,
                           .history = HistoryPart{piece.param, h, piece.shard}});
  return tensors;
}

// Norms keep their priority, which is before all else.
template <typename T>
void Shards<T>::OrderSends() {
  sent_clock_.resize(transfers_.size());
  read_clock_.resize(transfers_.size());
  const SendOrder order = settings_.server.order;
  for (int t = 0; t < values_from_; ++t) {
    At(transfers_, t).send_priority = [this, order, t](const Operation& send) {
      const int64_t clock = At(sent_clock_, t);
      return SendPriority<T>(
          order, clock, MemoryOf(t) + send.begin,
          values(At(read_clock_, t), t % Count(buckets_)) + send.begin, send.end - send.begin,
          static_cast<uint64_t>(clock) << 32 ^ static_cast<uint64_t>(send.begin));
    };
    At(transfers_, values_from_ + t).send_priority = [this, order, t](const Operation&) {
      return ValuePriority(order, At(sent_clock_, values_from_ + t));
    };
  }
}

template <typename T>
void Shards<T>::Take(const Offer<T>& offer, int bucket, Stream& /*stream*/) {
  const int64_t count = At(buckets_, bucket).count;
  if (count == 0) return;
  const std::vector<const void*> parts(offer.parts.begin(), offer.parts.end());
  ElementsOf<T>().sum(parts, count, gradient(offer.clock, bucket));
  for (T* part : offer.parts) std::fill_n(part, count, T(0));
  if (sent_clock_.empty()) return;
  At(sent_clock_, SumOf(offer.clock, bucket)) = offer.clock;
  At(read_clock_, SumOf(offer.clock, bucket)) = offer.read;
}

template <typename T>
void Shards<T>::CopyValues(int64_t clock, int64_t /*step*/, int bucket, const PlacedParam& param,
                           T* to) {
  if (param.count > 0) std::copy_n(values(clock, bucket) + param.offset, param.count, to);
}

template <typename T>
void Shards<T>::SetValues(int64_t clock, int bucket, const PlacedParam& param, const T* from) {
  if (param.count > 0) std::copy_n(from, param.count, values(clock, bucket) + param.offset);
}

template <typename T>
bool Shards<T>::Complete(const Transfers& transfers, int transfer, int64_t clock) const {
  return transfers.steps(transfer) > clock / slots_;
}

template <typename T>
int64_t Shards<T>::ValueClock(int bucket, int64_t at_least, const Transfers& transfers) const {
  int64_t clock = at_least;
  while (Complete(transfers, ValuesOf(clock, bucket), clock)) ++clock;
  return clock;
}

template <typename T>
void Shards<T>::Advance(const Transfers& transfers) {
  if (settings_.norms) {
    while (AdvanceWithNorms(transfers)) continue;
    return;
  }
  for (const int b : urgent_first_)
    while (Complete(transfers, SumOf(At(next_, b), b), At(next_, b)))
      UpdateBucket(b, /*squares=*/0, transfers);
}

// One clock, if it is complete.
template <typename T>
bool Shards<T>::AdvanceWithNorms(const Transfers& transfers) {
  if (buckets_.empty()) return false;
  const int64_t clock = next_.front();
  for (int b = 0; b < Count(buckets_); ++b)
    if (!Complete(transfers, SumOf(clock, b), clock)) return false;
  if (!squares_sent_) SendSquares(transfers);
  if (!Complete(transfers, NormOf(clock), clock)) return false;
  squares_sent_ = false;
  const double squares = Squares(clock);
  for (const int b : urgent_first_) UpdateBucket(b, squares, transfers);
  return true;
}

template <typename T>
void Shards<T>::SendSquares(const Transfers& transfers) {
  const int64_t clock = next_.front();
  T* const squares = MemoryOf(NormOf(clock));
  Stream stream;
  for (int b = 0; b < Count(buckets_); ++b)
    for (const Piece& piece : At(pieces_, b)) {
      if (!At(learned_, piece.param)) continue;
      const T* sum = gradient(clock, b) + piece.offset;
      ForBlocks(piece.shard, [&](int64_t block, int64_t at, int64_t count) {
        const double square = SumOfSquares(stream, count, sum + (at - piece.shard.first));
        const size_t place = At(blocks_before_, piece.param) + static_cast<size_t>(block);
        std::memcpy(squares + square_of_[place] * kPerDouble, &square, sizeof square);
      });
    }
  squares_sent_ = true;
  transfers.start(NormOf(clock));
}

// As Updater's norm: blocks are added within a parameter, then parameter by parameter.
template <typename T>
double Shards<T>::Squares(int64_t clock) {
  const T* const squares = MemoryOf(NormOf(clock));
  double total = 0;
  for (size_t p = 0; p < owned_.size(); ++p) {
    double of_param = 0;
    for (size_t i = blocks_before_[p]; i < blocks_before_[p + 1]; ++i) {
      double square = 0;
      std::memcpy(&square, squares + square_of_[i] * kPerDouble, sizeof square);
      of_param += square;
    }
    total += of_param;
  }
  return total;
}

template <typename T>
void Shards<T>::UpdateBucket(int bucket, double squares, const Transfers& transfers) {
  const int64_t clock = At(next_, bucket)++;
  // Once for each clock, with the sums of this clock and of no other: a slot is not used again
  // before its clock's values are everywhere.
  Ensure(transfers.steps(SumOf(clock, bucket)) == clock / slots_ + 1,
         "a shard is updated with the gradients of another clock");
  Ensure(transfers.steps(ValuesOf(clock, bucket)) == clock / slots_,
         "a shard is updated while the values of an older clock are being sent");
  T* const before = values(clock, bucket);
  T* const after = values(clock + 1, bucket);
  T* const sums = gradient(clock, bucket);
  for (const Piece& piece : At(pieces_, bucket)) {
    if (after != before)
      std::copy_n(before + piece.offset, piece.shard.count, after + piece.offset);
    update_({.param = piece.param,
             .shard = piece.shard,
             .value = after + piece.offset,
             .gradient = sums + piece.offset,
             .history = piece.history,
             .clock = clock,
             .squares = squares});
  }
  if (!sent_clock_.empty()) At(sent_clock_, ValuesOf(clock, bucket)) = clock;
  transfers.start(ValuesOf(clock, bucket));
}

template class Shards<float>;
template class Shards<double>;

}  // namespace carafe
