#include "carafe/exchange/engine.h"

#include <algorithm>
#include <utility>

#include "carafe/base/error.h"
#include "carafe/comm/tags.h"
#include "carafe/core/tree_sum.h"

namespace carafe {
namespace {

constexpr size_t kMaxChunkBytes = size_t{1} << 20;
constexpr size_t kMinChunkBytes = size_t{64} << 10;
constexpr size_t kRoomBytes = size_t{64} << 20;  // for received parts, in all slots together

int PartTag(int bucket) { return kFirstExchangeTag + 2 * bucket; }
int SumTag(int bucket) { return kFirstExchangeTag + 2 * bucket + 1; }

}  // namespace

template <typename T>
Engine<T>::Engine(int rank, int size, std::vector<std::span<T>> buckets,
                  const EngineOptions& options)
    : rank_(rank), size_(size), buckets_(std::move(buckets)) {
  size_t chunk_bytes = options.chunk_bytes;
  if (chunk_bytes == 0)
    chunk_bytes = std::clamp(kRoomBytes / (options.slots * static_cast<size_t>(size)),
                             kMinChunkBytes, kMaxChunkBytes);
  chunk_ = std::max<int64_t>(static_cast<int64_t>(chunk_bytes / sizeof(T)), 1);
  // What the slots will ever hold: the longest chunk that this rank owns.
  int64_t longest = 0;
  for (int b = 0; b < static_cast<int>(buckets_.size()); ++b)
    longest = std::max(longest, SegmentBegin(b, rank_ + 1) - SegmentBegin(b, rank_));
  longest = std::min(longest, chunk_);
  if (size_ == 1) return;
  slots_.resize(options.slots);
  for (Slot& slot : slots_) {
    slot.room.resize(static_cast<size_t>(longest) * (size_ - 1));
    slot.receives.resize(size_);
  }
}

template <typename T>
int64_t Engine<T>::SegmentBegin(int bucket, int owner) const {
  const int64_t count = static_cast<int64_t>(buckets_[bucket].size());
  return count / size_ * owner + std::min<int64_t>(owner, count % size_);
}

template <typename T>
void Engine<T>::OnReady(int bucket) {
  new_.push_back(bucket);
}

template <typename T>
Transport::Request Engine<T>::Send(Transport& transport, int to, int tag, const T* data,
                                   int64_t count) {
  const size_t bytes = static_cast<size_t>(count) * sizeof(T);
  bytes_sent_ += static_cast<int64_t>(bytes);
  return transport.Send(to, tag, data, bytes);
}

template <typename T>
void Engine<T>::Start(Transport& transport, int bucket) {
  T* data = buckets_[bucket].data();
  Active active{.bucket = bucket};
  for (int i = 1; i < size_; ++i) {  // everyone begins with another owner
    const int owner = (rank_ + i) % size_;
    Lane lane{owner, SegmentBegin(bucket, owner), SegmentBegin(bucket, owner + 1), {}, {}};
    for (int64_t at = lane.begin; at < lane.end; at += chunk_)
      lane.sends.push_back(
          Send(transport, owner, PartTag(bucket), data + at, std::min(chunk_, lane.end - at)));
    lane.results.resize(lane.sends.size());
    active.lanes.push_back(std::move(lane));
  }
  if (size_ > 1) {
    active.own_at = SegmentBegin(bucket, rank_);
    active.own_end = SegmentBegin(bucket, rank_ + 1);
    for (int64_t at = active.own_at; at < active.own_end; at += chunk_)
      owned_.push_back({bucket, at, std::min(at + chunk_, active.own_end)});
  }
  active_.push_back(std::move(active));
}

template <typename T>
typename Engine<T>::Active& Engine<T>::FindActive(int bucket) {
  const auto found = std::find_if(active_.begin(), active_.end(),
                                  [&](const Active& a) { return a.bucket == bucket; });
  Ensure(found != active_.end(), "a sum for a bucket that is not under way");
  return *found;
}

template <typename T>
bool Engine<T>::Poll(Transport& transport) {
  bool moved = !new_.empty();
  while (!new_.empty()) {
    Start(transport, new_.front());
    new_.erase(new_.begin());
  }
  moved |= FillSlots(transport);
  for (Slot& slot : slots_)
    if (slot.bucket >= 0) moved |= PollSlot(transport, slot);
  for (size_t i = 0; i < active_.size();) {
    Active& active = active_[i];
    bool complete = active.own_at == active.own_end;
    for (Lane& lane : active.lanes) {
      moved |= PollLane(transport, active.bucket, lane);
      complete &= lane.arrived == lane.results.size();
    }
    moved |= Sweep(transport, active.own_sends);
    if (complete && active.own_sends.empty()) {
      complete_.push_back(active.bucket);
      active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
      moved = true;
    } else {
      ++i;
    }
  }
  return moved;
}

template <typename T>
bool Engine<T>::PollLane(Transport& transport, int bucket, Lane& lane) {
  bool moved = false;
  for (size_t c = lane.arrived; c < lane.sends.size(); ++c) {
    if (lane.sends[c] == 0 || !transport.Done(lane.sends[c])) continue;
    lane.sends[c] = 0;
    moved = true;
  }
  while (lane.posted < lane.sends.size() && lane.sends[lane.posted] == 0) {
    const int64_t begin = lane.begin + static_cast<int64_t>(lane.posted) * chunk_;
    const int64_t count = std::min(chunk_, lane.end - begin);
    lane.results[lane.posted++] =
        transport.Receive(lane.owner, SumTag(bucket), buckets_[bucket].data() + begin,
                          static_cast<size_t>(count) * sizeof(T));
    moved = true;
  }
  while (lane.arrived < lane.posted && transport.Done(lane.results[lane.arrived])) {
    ++lane.arrived;
    moved = true;
  }
  return moved;
}

// Receives of one (rank, bucket) are posted in the order of the chunks, as they are sent.
template <typename T>
bool Engine<T>::FillSlots(Transport& transport) {
  bool moved = false;
  for (Slot& slot : slots_) {
    if (owned_.empty()) break;
    if (slot.bucket >= 0) continue;
    const OwnedChunk chunk = owned_.front();
    owned_.pop_front();
    slot.bucket = chunk.bucket;
    slot.begin = chunk.begin;
    slot.end = chunk.end;
    const int64_t count = chunk.end - chunk.begin;
    T* room = slot.room.data();
    for (int r = 0; r < size_; ++r) {
      if (r == rank_) continue;
      slot.receives[r] =
          transport.Receive(r, PartTag(chunk.bucket), room, static_cast<size_t>(count) * sizeof(T));
      room += count;
    }
    moved = true;
  }
  return moved;
}

template <typename T>
bool Engine<T>::PollSlot(Transport& transport, Slot& slot) {
  bool moved = false;
  bool all = true;
  for (Request& receive : slot.receives) {
    if (receive == 0) continue;
    if (transport.Done(receive)) {
      receive = 0;
      moved = true;
    } else {
      all = false;
    }
  }
  if (!all) return moved;
  Active& active = FindActive(slot.bucket);
  if (slot.begin != active.own_at) return moved;  // sums leave in the order of the chunks
  const int64_t count = slot.end - slot.begin;
  T* sum = buckets_[slot.bucket].data() + slot.begin;
  std::vector<const T*> parts(size_, sum);
  const T* room = slot.room.data();
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    parts[r] = room;
    room += count;
  }
  TreeSum<T>(parts, count, sum);
  active.own_at = slot.end;
  for (int i = 1; i < size_; ++i)
    active.own_sends.push_back(
        Send(transport, (rank_ + i) % size_, SumTag(slot.bucket), sum, count));
  slot.bucket = -1;
  return true;
}

template <typename T>
bool Engine<T>::Sweep(Transport& transport, std::vector<Request>& sends) {
  const size_t before = sends.size();
  std::erase_if(sends, [&](Request r) { return transport.Done(r); });
  return sends.size() < before;
}

template <typename T>
std::vector<int> Engine<T>::TakeComplete() {
  return std::exchange(complete_, {});
}

template <typename T>
std::vector<int> Engine<T>::Awaited() const {
  std::vector<int> ranks;
  for (int r = 0; r < size_; ++r) {
    const bool part = std::any_of(slots_.begin(), slots_.end(), [r](const Slot& slot) {
      return slot.bucket >= 0 && slot.receives[r] != 0;
    });
    if (part) ranks.push_back(r);
  }
  if (!ranks.empty()) return ranks;
  for (const Active& active : active_)
    for (const Lane& lane : active.lanes)
      if (lane.arrived < lane.results.size()) ranks.push_back(lane.owner);
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

template class Engine<float>;
template class Engine<double>;

}  // namespace carafe
