#include "carafe/exchange/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "carafe/base/error.h"
#include "carafe/core/tree_sum.h"

namespace carafe {
namespace {

using Kind = Operation::Kind;

template <typename T>
std::vector<int> PeersOf(const std::vector<Journey<T>>& journeys, int rank) {
  std::set<int> peers;
  for (const Journey<T>& journey : journeys)
    for (const Program& program : journey.chunks)
      for (const Operation& operation : program) {
        if (operation.kind != Kind::kSum) {
          peers.insert(operation.peer);
          continue;
        }
        for (int i = 0; i < operation.group.count; ++i)
          if (operation.group.at(i) != rank) peers.insert(operation.group.at(i));
      }
  return {peers.begin(), peers.end()};
}

// Of any message, in bytes.
template <typename T>
size_t Longest(const std::vector<Journey<T>>& journeys) {
  int64_t longest = 0;
  for (const Journey<T>& journey : journeys)
    for (const Program& program : journey.chunks)
      for (const Operation& operation : program)
        longest = std::max(longest, operation.end - operation.begin);
  return static_cast<size_t>(longest) * sizeof(T);
}

// Bytes of all journeys.
template <typename T>
size_t Whole(const std::vector<Journey<T>>& journeys) {
  int64_t count = 0;
  for (const Journey<T>& journey : journeys) count += journey.count;
  return static_cast<size_t>(count) * sizeof(T);
}

// Names a send: journey, chunk and operation.
constexpr int kChunkBits = 24, kOperationBits = 20;

uint64_t Ticket(int journey, int chunk, size_t operation) {
  return (static_cast<uint64_t>(journey) << kChunkBits | static_cast<uint64_t>(chunk))
             << kOperationBits |
         operation;
}

bool Meet(int64_t begin, int64_t end, int64_t other_begin, int64_t other_end) {
  return begin < other_end && other_begin < end;
}

}  // namespace

template <typename T>
Engine<T>::Engine(int rank, int size, std::vector<Journey<T>> journeys, const ChannelTags& tags)
    : rank_(rank),
      size_(size),
      journeys_(std::move(journeys)),
      states_(journeys_.size()),
      channel_(rank, size, PeersOf(journeys_, rank), tags, Longest(journeys_), Whole(journeys_)) {
  for (size_t j = 0; j < journeys_.size(); ++j) {
    for (const Program& program : journeys_[j].chunks) {
      Ensure(states_[j].chunks.size() < size_t{1} << kChunkBits &&
                 program.size() < size_t{1} << kOperationBits,
             "a journey of too many chunks or operations");
      Chunk& chunk = states_[j].chunks.emplace_back();
      chunk.program = &program;
      chunk.free_from.resize(program.size());
      for (size_t i = 0; i < program.size(); ++i) {
        const Operation& operation = program[i];
        Ensure(operation.begin >= 0 && operation.end <= journeys_[j].count,
               "a program leaves its journey");
        for (size_t before = 0; before < i; ++before)
          if (Meet(operation.begin, operation.end, program[before].begin, program[before].end))
            chunk.free_from[i] = before + 1;
        if (operation.kind != Kind::kSend)
          room_count_ = std::max(room_count_, operation.end - operation.begin);
      }
    }
  }
}

template <typename T>
void Engine<T>::OnReady(int journey) {
  State& state = states_[journey];
  Ensure(state.running == 0, "a journey begins before its last one has ended");
  AddOtherWorkers(journey);
  ++state.step;
  state.time_up = false;
  ++active_;
  state.running = state.chunks.size();
  if (state.chunks.empty()) {
    --active_;
    complete_.push_back(journey);
    return;
  }
  for (size_t c = 0; c < state.chunks.size(); ++c) {
    state.chunks[c].running = true;
    state.chunks[c].next = 0;
    woken_.push_back({journey, static_cast<int>(c)});
  }
}

template <typename T>
void Engine<T>::OnTimeUp(int journey) {
  State& state = states_[journey];
  if (state.running == 0) return;
  state.time_up = true;
  for (size_t c = 0; c < state.chunks.size(); ++c)
    if (state.chunks[c].running) woken_.push_back({journey, static_cast<int>(c)});
}

// data = the tree sum over this rank's workers; the others' parts are cleared for the next step.
template <typename T>
void Engine<T>::AddOtherWorkers(int journey) {
  const Journey<T>& j = journeys_[journey];
  if (j.others.empty() || !j.data) return;
  std::vector<const T*> parts = {j.data};
  parts.insert(parts.end(), j.others.begin(), j.others.end());
  TreeSum<T>(parts, j.count, j.data);
  for (T* other : j.others) std::fill(other, other + j.count, T(0));
}

template <typename T>
bool Engine<T>::Poll(Transport& transport) {
  transport_ = &transport;
  bool moved = channel_.Poll(transport, *this);
  while (!woken_.empty()) {
    std::vector<Which> woken;
    woken.swap(woken_);
    for (const Which& which : woken) moved |= Advance(which);
    moved |= channel_.Poll(transport, *this);
  }
  return moved;
}

template <typename T>
bool Engine<T>::Advance(Which which) {
  State& state = states_[which.journey];
  Chunk& chunk = state.chunks[which.chunk];
  if (!chunk.running) return false;
  bool moved = false;
  while (chunk.next < chunk.program->size()) {
    if (!Do(which, chunk)) return moved;
    ++chunk.next;
    moved = true;
  }
  if (!chunk.sending.empty()) return moved;
  chunk.running = false;
  if (--state.running == 0) {
    --active_;
    complete_.push_back(which.journey);
  }
  return true;
}

// Whether the chunk's next operation could be done.
template <typename T>
bool Engine<T>::Do(Which which, Chunk& chunk) {
  const Operation& operation = (*chunk.program)[chunk.next];
  const Journey<T>& j = journeys_[which.journey];
  const int64_t step = states_[which.journey].step;
  const int64_t count = operation.end - operation.begin;
  T* data = j.data ? j.data + operation.begin : nullptr;
  if (operation.kind == Kind::kSend) {
    chunk.sending.push_back(chunk.next);
    channel_.Send(operation.peer,
                  {.journey = which.journey,
                   .chunk = which.chunk,
                   .label = operation.label,
                   .step = step,
                   .bytes = static_cast<uint32_t>(static_cast<uint64_t>(count) * sizeof(T))},
                  data, j.priority, Ticket(which.journey, which.chunk, chunk.next));
    return true;
  }
  if (operation.timely) return SumInTime(which, chunk);
  if (operation.kind == Kind::kSum) {
    const RankGroup& group = operation.group;
    std::vector<const T*> parts(static_cast<size_t>(group.count), data);
    for (int i = 0; i < group.count; ++i) {
      if (group.at(i) == rank_) continue;
      const Arrival* part = Find(chunk, group.at(i), operation.label, step);
      if (!part || !part->complete) return false;
      parts[static_cast<size_t>(i)] = part->content;
    }
    if (IsBeingSent(chunk, operation.begin, operation.end)) return false;
    if (data) TreeSum<T>(parts, count, data);
    for (int i = 0; i < group.count; ++i)
      if (group.at(i) != rank_) Forget(chunk, Find(chunk, group.at(i), operation.label, step));
    return true;
  }
  const Arrival* arrival = Find(chunk, operation.peer, operation.label, step);
  if (!arrival || !arrival->complete) return false;
  if (arrival->content) {
    if (IsBeingSent(chunk, operation.begin, operation.end)) return false;
    if (operation.kind == Kind::kAdd) {
      const T* theirs = arrival->content;
      for (int64_t i = 0; i < count; ++i) data[i] += theirs[i];
    } else {
      std::copy(arrival->content, arrival->content + count, data);
    }
  }
  Forget(chunk, arrival);
  return true;
}

// Parts in the order of the ranks, what was left out of the last step before what came in this one.
template <typename T>
bool Engine<T>::SumInTime(Which which, Chunk& chunk) {
  const Operation& operation = (*chunk.program)[chunk.next];
  const State& state = states_[which.journey];
  const RankGroup& group = operation.group;
  T* data = journeys_[which.journey].data;
  if (data) data += operation.begin;
  std::vector<const T*> parts;
  std::vector<std::pair<int, int64_t>> used;  // from, step
  std::vector<int> missing;
  const auto take = [&](int from, int64_t step) {
    const Arrival* part = Find(chunk, from, operation.label, step);
    if (!part || !part->complete) return false;
    parts.push_back(part->content);
    used.emplace_back(from, step);
    return true;
  };
  for (int i = 0; i < group.count; ++i) {
    const int from = group.at(i);
    if (from == rank_) {
      parts.push_back(data);
      continue;
    }
    const bool was_late = std::find(chunk.late.begin(), chunk.late.end(), from) != chunk.late.end();
    if (was_late && !take(from, state.step - 1)) return false;
    if (!take(from, state.step)) missing.push_back(from);
  }
  if (!missing.empty() && !state.time_up) return false;
  if (IsBeingSent(chunk, operation.begin, operation.end)) return false;
  if (data) {
    const int64_t count = operation.end - operation.begin;
    TreeSum<T>(parts, count, data);
    const T scale = static_cast<T>(group.count) / static_cast<T>(parts.size());
    if (parts.size() != static_cast<size_t>(group.count))
      for (int64_t i = 0; i < count; ++i) data[i] *= scale;
  }
  for (const auto& [from, step] : used) Forget(chunk, Find(chunk, from, operation.label, step));
  chunk.late = missing;
  return true;
}

template <typename T>
typename Engine<T>::Arrival* Engine<T>::Find(Chunk& chunk, int from, int label, int64_t step) {
  const auto found =
      std::find_if(chunk.arrivals.begin(), chunk.arrivals.end(), [&](const Arrival& arrival) {
        return arrival.from == from && arrival.label == label && arrival.step == step;
      });
  return found == chunk.arrivals.end() ? nullptr : &*found;
}

template <typename T>
void Engine<T>::Forget(Chunk& chunk, const Arrival* arrival) {
  if (arrival->room) free_rooms_.push_back(arrival->room);
  if (arrival->loan) channel_.Return(*transport_, arrival->loan);
  chunk.arrivals.erase(chunk.arrivals.begin() + (arrival - chunk.arrivals.data()));
}

template <typename T>
bool Engine<T>::IsBeingSent(const Chunk& chunk, int64_t begin, int64_t end) const {
  return std::any_of(chunk.sending.begin(), chunk.sending.end(), [&](size_t i) {
    const Operation& sending = (*chunk.program)[i];
    return Meet(begin, end, sending.begin, sending.end);
  });
}

template <typename T>
T* Engine<T>::TakeRoom() {
  if (free_rooms_.empty()) {
    pool_.push_back(std::make_unique_for_overwrite<T[]>(static_cast<size_t>(room_count_)));
    return pool_.back().get();
  }
  T* room = free_rooms_.back();
  free_rooms_.pop_back();
  return room;
}

template <typename T>
PayloadPlace Engine<T>::PlaceFor(int from, const Notice& notice, bool can_borrow) {
  const auto fits = [&] {
    return notice.journey >= 0 && notice.journey < static_cast<int>(journeys_.size()) &&
           notice.chunk >= 0 &&
           notice.chunk < static_cast<int>(states_[notice.journey].chunks.size());
  };
  if (!fits())
    throw CommError(fmt::format("rank {} sends what nobody awaits (journey {}, chunk {})", from,
                                notice.journey, notice.chunk),
                    "all ranks must run the same program with the same net and flags");
  const Journey<T>& journey = journeys_[notice.journey];
  State& state = states_[notice.journey];
  Chunk& chunk = state.chunks[notice.chunk];
  size_t i = 0;
  for (; i < chunk.program->size(); ++i) {
    const Operation& operation = (*chunk.program)[i];
    if (operation.label == notice.label && operation.Awaits(from)) break;
  }
  const bool expected =
      i < chunk.program->size() &&
      notice.bytes ==
          static_cast<uint64_t>((*chunk.program)[i].end - (*chunk.program)[i].begin) * sizeof(T) &&
      (notice.step == state.step || notice.step == state.step + 1 ||
       ((*chunk.program)[i].timely && notice.step == state.step - 1));
  if (!expected)
    throw CommError(
        fmt::format("rank {} sends {} bytes of step {} (label {}), which do not fit step {} here",
                    from, notice.bytes, notice.step, notice.label, state.step),
        "all ranks must run the same program with the same net and flags");
  const Operation& operation = (*chunk.program)[i];
  T* room = nullptr;
  PayloadPlace place;
  if (journey.data) {
    const bool in_place = operation.kind == Kind::kPlace && chunk.running &&
                          notice.step == state.step && chunk.next >= chunk.free_from[i] &&
                          !IsBeingSent(chunk, operation.begin, operation.end);
    // What may come after the last step of all would never be returned.
    place.borrow = !in_place && can_borrow && !operation.timely;
    if (!in_place && !place.borrow) room = TakeRoom();
    place.memory = in_place ? journey.data + operation.begin : room;
  }
  chunk.arrivals.push_back({from, notice.label, notice.step, room, {}, room, false});
  return place;
}

template <typename T>
void Engine<T>::OnArrived(int from, const Notice& notice, const Loan& loan) {
  Chunk& chunk = states_[notice.journey].chunks[notice.chunk];
  Arrival* arrival = Find(chunk, from, notice.label, notice.step);
  Ensure(arrival != nullptr, "a payload came without its notice");
  arrival->complete = true;
  if (loan) {
    arrival->loan = loan;
    arrival->content = static_cast<const T*>(channel_.Lent(*transport_, loan));
  }
  woken_.push_back({notice.journey, notice.chunk});
}

template <typename T>
void Engine<T>::OnSent(uint64_t ticket) {
  const Which which{static_cast<int>(ticket >> (kChunkBits + kOperationBits)),
                    static_cast<int>(ticket >> kOperationBits & ((1 << kChunkBits) - 1))};
  Chunk& chunk = states_[which.journey].chunks[which.chunk];
  std::erase(chunk.sending, ticket & ((size_t{1} << kOperationBits) - 1));
  woken_.push_back(which);
}

template <typename T>
std::vector<int> Engine<T>::TakeComplete() {
  return std::exchange(complete_, {});
}

template <typename T>
std::vector<int> Engine<T>::Awaited() const {
  std::set<int> ranks;
  for (size_t j = 0; j < states_.size(); ++j)
    for (const Chunk& chunk : states_[j].chunks) {
      if (!chunk.running) continue;
      for (size_t i : chunk.sending) ranks.insert((*chunk.program)[i].peer);  // takes nothing
      if (chunk.next == chunk.program->size()) continue;
      const Operation& operation = (*chunk.program)[chunk.next];
      const auto here = [&](int from) {
        return std::any_of(chunk.arrivals.begin(), chunk.arrivals.end(), [&](const Arrival& a) {
          return a.from == from && a.label == operation.label && a.step == states_[j].step &&
                 a.complete;
        });
      };
      for (int r = 0; r < size_; ++r)
        if (r != rank_ && operation.Awaits(r) && !here(r)) ranks.insert(r);
    }
  return {ranks.begin(), ranks.end()};
}

template class Engine<float>;
template class Engine<double>;

}  // namespace carafe
