#include "carafe/exchange/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "carafe/base/error.h"
#include "carafe/base/index.h"

namespace carafe {
namespace {

using Kind = Operation::Kind;

std::vector<int> PeersOf(const std::vector<Transfer>& transfers, int rank) {
  std::set<int> peers;
  for (const Transfer& transfer : transfers)
    for (const Program& program : transfer.chunks)
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

bool IsEncoded(const Transfer& transfer, const Operation& operation) {
  return transfer.codec && !operation.plain;
}

size_t MessageBytes(const Transfer& transfer, const ElementType& elements,
                    const Operation& operation) {
  const int64_t count = operation.end - operation.begin;
  if (IsEncoded(transfer, operation)) return transfer.codec->EncodedBytes(count);
  return static_cast<size_t>(count) * elements.bytes;
}

// Bytes of the longest message.
size_t Longest(const std::vector<Transfer>& transfers, const ElementType& elements) {
  size_t longest = 0;
  for (const Transfer& transfer : transfers)
    for (const Program& program : transfer.chunks)
      for (const Operation& operation : program)
        longest = std::max(longest, MessageBytes(transfer, elements, operation));
  return longest;
}

// Bytes of all transfers.
size_t Whole(const std::vector<Transfer>& transfers, const ElementType& elements) {
  int64_t count = 0;
  for (const Transfer& transfer : transfers) count += transfer.count;
  return static_cast<size_t>(count) * elements.bytes;
}

// A ticket names a send: transfer, chunk and operation.
constexpr int kChunkBits = 24, kOperationBits = 20;

uint64_t Ticket(int transfer, int chunk, size_t operation) {
  return (static_cast<uint64_t>(transfer) << kChunkBits | static_cast<uint64_t>(chunk))
             << kOperationBits |
         operation;
}

bool Intersect(const Operation& a, const Operation& b) {
  return a.begin < b.end && b.begin < a.end;
}

}  // namespace

void AddOtherParts(const ElementType& elements, int64_t count, void* data,
                   const std::vector<void*>& other_parts) {
  if (other_parts.empty() || !data) return;
  std::vector<const void*> parts = {data};
  parts.insert(parts.end(), other_parts.begin(), other_parts.end());
  elements.sum(parts, count, data);
  for (void* part : other_parts) std::memset(part, 0, static_cast<size_t>(count) * elements.bytes);
}

Engine::Engine(int rank, int size, const ElementType& elements, std::vector<Transfer> transfers,
               const ChannelTags& tags)
    : rank_(rank),
      size_(size),
      elements_(elements),
      transfers_(std::move(transfers)),
      states_(transfers_.size()),
      channel_(rank, size, PeersOf(transfers_, rank), tags, Longest(transfers_, elements),
               Whole(transfers_, elements)),
      staging_bytes_(Longest(transfers_, elements)) {
  for (size_t t = 0; t < transfers_.size(); ++t)
    for (const Program& program : transfers_[t].chunks)
      CheckProgram(transfers_[t], program, states_[t].chunks.emplace_back());
}

void Engine::CheckProgram(const Transfer& transfer, const Program& program, Chunk& chunk) {
  Ensure(transfer.chunks.size() < size_t{1} << kChunkBits && program.size() < size_t{1}
                                                                                  << kOperationBits,
         "a transfer has too many chunks or operations");
  chunk.program = &program;
  chunk.free_from.resize(program.size());
  for (size_t i = 0; i < program.size(); ++i) {
    Ensure(program[i].begin >= 0 && program[i].end <= transfer.count,
           "a program leaves the memory of its transfer");
    for (size_t before = 0; before < i; ++before)
      if (Intersect(program[i], program[before])) chunk.free_from[i] = before + 1;
  }
  if (transfer.codec) AddEncoded(transfer, program, chunk);
}

void Engine::AddEncoded(const Transfer& transfer, const Program& program, Chunk& chunk) {
  for (const Operation& operation : program) {
    if (operation.plain) continue;
    Ensure(operation.kind != Kind::kAdd && !operation.skips_late,
           "a codec cannot be used with partial sums");
    if (operation.kind == Kind::kReceive || FindEncoded(chunk, operation)) continue;
    const size_t bytes = transfer.codec->EncodedBytes(operation.end - operation.begin);
    chunk.encoded.push_back(
        {.begin = operation.begin,
         .end = operation.end,
         .bytes = transfer.data ? std::make_unique<std::byte[]>(bytes) : nullptr});
  }
}

void Engine::OnReady(int transfer) { Begin(transfer, /*counted=*/true); }

void Engine::Listen(int transfer) { Begin(transfer, /*counted=*/false); }

void Engine::Expect(int transfer) {
  State& state = At(states_, transfer);
  if (state.running == 0 || state.counted) return;
  state.counted = true;
  ++active_;
}

void Engine::Begin(int transfer, bool counted) {
  State& state = At(states_, transfer);
  Ensure(state.running == 0, "a transfer was started before its last step was complete");
  const Transfer& t = At(transfers_, transfer);
  AddOtherParts(elements_, t.count, t.data, t.other_parts);
  ++state.step;
  state.timed_out = false;
  state.counted = counted;
  if (counted) ++active_;
  state.running = state.chunks.size();
  if (state.chunks.empty()) Complete(transfer);
  for (int c = 0; c < Count(state.chunks); ++c) {
    Chunk& chunk = At(state.chunks, c);
    chunk.running = true;
    chunk.next = 0;
    for (Encoded& encoded : chunk.encoded) encoded.current = false;
    woken_.push_back({transfer, c});
  }
}

void Engine::OnTimeout(int transfer) {
  State& state = At(states_, transfer);
  if (state.running == 0) return;
  state.timed_out = true;
  for (int c = 0; c < Count(state.chunks); ++c)
    if (At(state.chunks, c).running) woken_.push_back({transfer, c});
}

bool Engine::Poll(Transport& transport, double now) {
  transport_ = &transport;
  bool moved = channel_.Poll(transport, *this, now);
  while (!woken_.empty()) {
    std::vector<ChunkId> woken;
    woken.swap(woken_);
    for (const ChunkId& id : woken) moved |= Advance(id);
    moved |= channel_.Poll(transport, *this, now);
  }
  return moved;
}

bool Engine::Advance(ChunkId id) {
  State& state = At(states_, id.transfer);
  Chunk& chunk = At(state.chunks, id.chunk);
  if (!chunk.running) return false;
  bool moved = false;
  while (chunk.next < chunk.program->size()) {
    if (!Do(id, chunk)) return moved;
    ++chunk.next;
    moved = true;
  }
  if (!chunk.sending.empty()) return moved;
  chunk.running = false;
  if (--state.running == 0) Complete(id.transfer);
  return true;
}

void Engine::Complete(int transfer) {
  const Transfer& t = At(transfers_, transfer);
  if (t.clear_when_complete && t.data)
    std::memset(t.data, 0, static_cast<size_t>(t.count) * elements_.bytes);
  if (std::exchange(At(states_, transfer).counted, false)) --active_;
  complete_.push_back(transfer);
}

std::byte* Engine::DataOf(int transfer, int64_t begin) const {
  auto* data = static_cast<std::byte*>(At(transfers_, transfer).data);
  return data ? data + static_cast<size_t>(begin) * elements_.bytes : nullptr;
}

size_t Engine::BytesOf(int transfer, const Operation& operation) const {
  return MessageBytes(At(transfers_, transfer), elements_, operation);
}

// Does the chunk's next operation; returns whether it could be done.
bool Engine::Do(ChunkId id, Chunk& chunk) {
  const Operation& operation = (*chunk.program)[chunk.next];
  switch (operation.kind) {
    case Kind::kSend:
      Send(id, chunk);
      return true;
    case Kind::kSum:
      return operation.skips_late ? SumWithoutLate(id, chunk) : Sum(id, chunk);
    case Kind::kAdd:
    case Kind::kReceive:
      break;
  }
  return Receive(id, chunk);
}

void Engine::Send(ChunkId id, Chunk& chunk) {
  const Operation& operation = (*chunk.program)[chunk.next];
  const Transfer& transfer = At(transfers_, id.transfer);
  const void* data = IsEncoded(transfer, operation) ? EncodePart(id, chunk, operation)
                                                    : DataOf(id.transfer, operation.begin);
  chunk.sending.push_back(chunk.next);
  channel_.Send(operation.peer,
                {.transfer = id.transfer,
                 .chunk = id.chunk,
                 .label = operation.label,
                 .step = At(states_, id.transfer).step,
                 .bytes = static_cast<uint32_t>(BytesOf(id.transfer, operation))},
                data,
                transfer.send_priority ? transfer.send_priority(operation) : transfer.priority,
                Ticket(id.transfer, id.chunk, chunk.next));
}

Engine::Encoded* Engine::FindEncoded(Chunk& chunk, const Operation& operation) {
  const auto found = std::find_if(
      chunk.encoded.begin(), chunk.encoded.end(),
      [&](const Encoded& e) { return e.begin == operation.begin && e.end == operation.end; });
  return found == chunk.encoded.end() ? nullptr : &*found;
}

// The encoded content of the operation's range: a sum that was made or received in this step, or
// else this rank's part, which is encoded when it is first needed.
const void* Engine::EncodePart(ChunkId id, Chunk& chunk, const Operation& operation) {
  const Transfer& transfer = At(transfers_, id.transfer);
  Encoded& encoded = *FindEncoded(chunk, operation);
  if (!encoded.current && transfer.data) {
    float* residual = transfer.part_residual ? transfer.part_residual + operation.begin : nullptr;
    transfer.codec->Encode(static_cast<const float*>(transfer.data) + operation.begin,
                           operation.end - operation.begin, residual, encoded.bytes.get());
  }
  encoded.current = true;
  return encoded.bytes.get();
}

// data = the decoded encoding of the sum of the decoded parts.
void Engine::SumEncoded(ChunkId id, Chunk& chunk, std::vector<const void*>& parts) {
  const Operation& operation = (*chunk.program)[chunk.next];
  const Transfer& transfer = At(transfers_, id.transfer);
  const int64_t count = operation.end - operation.begin;
  float* data = static_cast<float*>(transfer.data) + operation.begin;
  decoded_.resize(static_cast<size_t>(count) * parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    float* part = decoded_.data() + i * static_cast<size_t>(count);
    transfer.codec->Decode(static_cast<const std::byte*>(parts[i]), count, part);
    parts[i] = part;
  }
  SumParts(operation.group, parts, count, data);
  Encoded& encoded = *FindEncoded(chunk, operation);
  float* residual = transfer.sum_residual ? transfer.sum_residual + operation.begin : nullptr;
  transfer.codec->Encode(data, count, residual, encoded.bytes.get());
  transfer.codec->Decode(encoded.bytes.get(), count, data);
}

// A range that is sent on is sent in the encoding that was received.
void Engine::ReceiveEncoded(ChunkId id, Chunk& chunk, const void* content) {
  const Operation& operation = (*chunk.program)[chunk.next];
  const Transfer& transfer = At(transfers_, id.transfer);
  transfer.codec->Decode(static_cast<const std::byte*>(content), operation.end - operation.begin,
                         static_cast<float*>(transfer.data) + operation.begin);
  Encoded* encoded = FindEncoded(chunk, operation);
  if (!encoded) return;
  std::memcpy(encoded->bytes.get(), content, BytesOf(id.transfer, operation));
  encoded->current = true;
}

// In the order of the group; of another number of parts (see skips_late) in one tree.
void Engine::SumParts(const RankGroup& group, const std::vector<const void*>& parts, int64_t count,
                      void* data) const {
  if (group.list && !group.list->subtrees.empty() && Count(parts) == group.count) {
    elements_.sum_of_trees(parts, group.list->subtrees, count, data);
  } else {
    elements_.sum(parts, count, data);
  }
}

bool Engine::Sum(ChunkId id, Chunk& chunk) {
  const Operation& operation = (*chunk.program)[chunk.next];
  const int64_t step = At(states_, id.transfer).step;
  const RankGroup& group = operation.group;
  std::byte* data = DataOf(id.transfer, operation.begin);
  std::vector<const void*> parts;
  for (int i = 0; i < group.count; ++i) {
    if (group.at(i) == rank_) {
      parts.push_back(data);
      continue;
    }
    const Arrival* part = Find(chunk, group.at(i), operation.label, step);
    if (!part || !part->complete) return false;
    parts.push_back(part->content);
  }
  if (IsBeingSent(chunk, operation)) return false;
  if (data && IsEncoded(At(transfers_, id.transfer), operation)) {
    At(parts, group.IndexOf(rank_)) = EncodePart(id, chunk, operation);
    SumEncoded(id, chunk, parts);
  } else if (data) {
    SumParts(group, parts, operation.end - operation.begin, data);
  }
  for (int i = 0; i < group.count; ++i)
    if (group.at(i) != rank_) Forget(chunk, Find(chunk, group.at(i), operation.label, step));
  return true;
}

// Parts in the order of the ranks, what was left out of the last step before this step's part.
bool Engine::SumWithoutLate(ChunkId id, Chunk& chunk) {
  const Operation& operation = (*chunk.program)[chunk.next];
  const State& state = At(states_, id.transfer);
  const RankGroup& group = operation.group;
  std::byte* data = DataOf(id.transfer, operation.begin);
  std::vector<const void*> parts;
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
  if (!missing.empty() && !state.timed_out) return false;
  if (IsBeingSent(chunk, operation)) return false;
  if (data) {
    const int64_t count = operation.end - operation.begin;
    SumParts(group, parts, count, data);
    if (Count(parts) != group.count) elements_.scale(group.count, Count(parts), count, data);
  }
  for (const auto& [from, step] : used) Forget(chunk, Find(chunk, from, operation.label, step));
  chunk.late = missing;
  return true;
}

// kAdd and kReceive.
bool Engine::Receive(ChunkId id, Chunk& chunk) {
  const Operation& operation = (*chunk.program)[chunk.next];
  const Arrival* arrival =
      Find(chunk, operation.peer, operation.label, At(states_, id.transfer).step);
  if (!arrival || !arrival->complete) return false;
  if (arrival->content) {
    if (IsBeingSent(chunk, operation)) return false;
    std::byte* data = DataOf(id.transfer, operation.begin);
    if (IsEncoded(At(transfers_, id.transfer), operation)) {
      ReceiveEncoded(id, chunk, arrival->content);
    } else if (operation.kind == Kind::kAdd) {
      elements_.add(arrival->content, operation.end - operation.begin, data);
    } else {
      std::memcpy(data, arrival->content, BytesOf(id.transfer, operation));
    }
  }
  Forget(chunk, arrival);
  return true;
}

Engine::Arrival* Engine::Find(Chunk& chunk, int from, int label, int64_t step) {
  const auto found =
      std::find_if(chunk.arrivals.begin(), chunk.arrivals.end(), [&](const Arrival& arrival) {
        return arrival.from == from && arrival.label == label && arrival.step == step;
      });
  return found == chunk.arrivals.end() ? nullptr : &*found;
}

void Engine::Forget(Chunk& chunk, const Arrival* arrival) {
  if (arrival->staging) free_staging_.push_back(arrival->staging);
  if (arrival->view) channel_.Release(*transport_, arrival->view);
  chunk.arrivals.erase(chunk.arrivals.begin() + (arrival - chunk.arrivals.data()));
}

bool Engine::IsBeingSent(const Chunk& chunk, const Operation& operation) const {
  return std::any_of(chunk.sending.begin(), chunk.sending.end(),
                     [&](size_t i) { return Intersect(operation, (*chunk.program)[i]); });
}

std::byte* Engine::TakeStaging() {
  if (free_staging_.empty()) {
    staging_.push_back(std::make_unique_for_overwrite<std::byte[]>(staging_bytes_));
    free_staging_.push_back(staging_.back().get());
  }
  std::byte* staging = free_staging_.back();
  free_staging_.pop_back();
  return staging;
}

// The operation that takes the payload announced by `header`. Throws CommError if there is none: a
// rank that runs another program, net or version must not write to our memory.
size_t Engine::ExpectedOperation(int from, const Header& header) const {
  if (header.transfer < 0 || header.transfer >= Count(states_) || header.chunk < 0 ||
      header.chunk >= Count(At(states_, header.transfer).chunks))
    throw CommError(fmt::format("rank {} sends what this rank does not expect (transfer {}, chunk "
                                "{})",
                                from, header.transfer, header.chunk),
                    "all ranks must run the same program with the same net and flags");
  const State& state = At(states_, header.transfer);
  const Program& program = *At(state.chunks, header.chunk).program;
  const auto operation = std::find_if(program.begin(), program.end(), [&](const Operation& o) {
    return o.label == header.label && o.Expects(from);
  });
  const bool expected = operation != program.end() &&
                        header.bytes == BytesOf(header.transfer, *operation) &&
                        (header.step == state.step || header.step == state.step + 1 ||
                         (operation->skips_late && header.step == state.step - 1));
  if (!expected)
    throw CommError(
        fmt::format("rank {} sends {} bytes of step {} (label {}), which do not fit step {} here",
                    from, header.bytes, header.step, header.label, state.step),
        "all ranks must run the same program with the same net and flags");
  return static_cast<size_t>(operation - program.begin());
}

PayloadTarget Engine::TargetFor(int from, const Header& header, bool can_view) {
  const size_t i = ExpectedOperation(from, header);
  const State& state = At(states_, header.transfer);
  Chunk& chunk = At(At(states_, header.transfer).chunks, header.chunk);
  const Operation& operation = (*chunk.program)[i];
  std::byte* staging = nullptr;
  PayloadTarget target;
  const Transfer& transfer = At(transfers_, header.transfer);
  if (transfer.data) {
    const bool in_place = operation.kind == Kind::kReceive && !IsEncoded(transfer, operation) &&
                          chunk.running && header.step == state.step &&
                          chunk.next >= chunk.free_from[i] && !IsBeingSent(chunk, operation);
    // A payload that arrives after the last step is never used, so a view of it would never be
    // released.
    target.zero_copy = !in_place && can_view && !operation.skips_late;
    if (!in_place && !target.zero_copy) staging = TakeStaging();
    target.memory = in_place ? DataOf(header.transfer, operation.begin) : staging;
  }
  chunk.arrivals.push_back({from, header.label, header.step, staging, {}, staging, false});
  return target;
}

void Engine::OnArrived(int from, const Header& header, const PayloadView& view) {
  Chunk& chunk = At(At(states_, header.transfer).chunks, header.chunk);
  Arrival* arrival = Find(chunk, from, header.label, header.step);
  Ensure(arrival != nullptr, "a payload arrived without its header");
  arrival->complete = true;
  if (view) {
    arrival->view = view;
    arrival->content = channel_.Content(*transport_, view);
  }
  woken_.push_back({header.transfer, header.chunk});
}

void Engine::OnSent(uint64_t ticket) {
  const ChunkId id{static_cast<int>(ticket >> (kChunkBits + kOperationBits)),
                   static_cast<int>(ticket >> kOperationBits & ((1 << kChunkBits) - 1))};
  Chunk& chunk = At(At(states_, id.transfer).chunks, id.chunk);
  std::erase(chunk.sending, ticket & ((size_t{1} << kOperationBits) - 1));
  woken_.push_back(id);
}

std::vector<int> Engine::TakeComplete() { return std::exchange(complete_, {}); }

std::vector<int> Engine::WaitsFor() const {
  std::set<int> ranks;
  for (const State& state : states_)
    for (const Chunk& chunk : state.chunks) {
      if (!chunk.running || !state.counted) continue;
      for (size_t i : chunk.sending) ranks.insert((*chunk.program)[i].peer);  // receives nothing
      if (chunk.next == chunk.program->size()) continue;
      const Operation& operation = (*chunk.program)[chunk.next];
      const auto is_here = [&](int from) {
        return std::any_of(chunk.arrivals.begin(), chunk.arrivals.end(), [&](const Arrival& a) {
          return a.from == from && a.label == operation.label && a.step == state.step && a.complete;
        });
      };
      for (int r = 0; r < size_; ++r)
        if (r != rank_ && operation.Expects(r) && !is_here(r)) ranks.insert(r);
    }
  return {ranks.begin(), ranks.end()};
}

}  // namespace carafe
