#include "carafe/comm/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "carafe/base/error.h"
#include "carafe/comm/tags.h"

namespace carafe {
namespace {

constexpr uint64_t kGather = 1;
constexpr uint64_t kBroadcast = 2;
constexpr size_t kGatherChunk = size_t{64} << 20;
constexpr size_t kBroadcastChunk = size_t{1} << 20;

std::string Name(const CollectiveHeader& header) {
  return fmt::format("{} of {} bytes (collective call {})",
                     header.kind == kGather ? "a gathering" : "a broadcast", header.bytes,
                     header.call);
}

void CheckHeader(const CollectiveHeader& mine, const CollectiveHeader& theirs, int from) {
  if (mine.call == theirs.call && mine.kind == theirs.kind &&
      (mine.kind == kGather || mine.bytes == theirs.bytes))
    return;
  throw CommError(fmt::format("out of step with rank {}: it makes {}, this rank {}", from,
                              Name(theirs), Name(mine)),
                  "all ranks must run the same program with the same files and flags");
}

// Forgets the sends that are done; returns whether there were any.
bool Sweep(Transport& transport, std::vector<Transport::Request>& sends) {
  const size_t before = sends.size();
  std::erase_if(sends, [&](Transport::Request r) { return transport.Done(r); });
  return sends.size() < before;
}

}  // namespace

AllGatherPoller::AllGatherPoller(int rank, int size, uint64_t call, const std::string& mine)
    : rank_(rank), mine_{call, kGather, mine.size()}, parts_(size) {
  parts_[rank].text = mine;
  parts_[rank].complete = true;
}

void AllGatherPoller::Start(Transport& transport) {
  started_ = true;
  for (int r = 0; r < static_cast<int>(parts_.size()); ++r) {
    if (r == rank_) continue;
    Part& part = parts_[r];
    part.receive = transport.Receive(r, kCollectiveTag, &part.header, sizeof part.header);
    sends_.push_back(transport.Send(r, kCollectiveTag, &mine_, sizeof mine_));
    const std::string& text = parts_[rank_].text;
    for (size_t begin = 0; begin < text.size(); begin += kGatherChunk)
      sends_.push_back(transport.Send(r, kCollectiveTag, text.data() + begin,
                                      std::min(kGatherChunk, text.size() - begin)));
  }
}

bool AllGatherPoller::Advance(Transport& transport, int from) {
  Part& part = parts_[from];
  if (!transport.Done(part.receive)) return false;
  if (!part.has_header) {
    part.has_header = true;
    CheckHeader(mine_, part.header, from);
    part.text.resize(part.header.bytes);
  } else {
    part.received += std::min(kGatherChunk, part.text.size() - part.received);
  }
  const size_t left = part.text.size() - part.received;
  part.complete = left == 0;
  if (left > 0)
    part.receive = transport.Receive(from, kCollectiveTag, part.text.data() + part.received,
                                     std::min(kGatherChunk, left));
  return true;
}

bool AllGatherPoller::Poll(Transport& transport) {
  if (done_.load(std::memory_order_relaxed)) return false;
  bool moved = !started_;
  if (!started_) Start(transport);
  moved |= Sweep(transport, sends_);
  bool complete = sends_.empty();
  for (int r = 0; r < static_cast<int>(parts_.size()); ++r) {
    while (!parts_[r].complete && Advance(transport, r)) moved = true;
    complete &= parts_[r].complete;
  }
  if (complete) done_.store(true, std::memory_order_release);
  return moved;
}

std::vector<int> AllGatherPoller::WaitsFor() const {
  std::vector<int> ranks;
  for (int r = 0; r < static_cast<int>(parts_.size()); ++r)
    if (!parts_[r].complete) ranks.push_back(r);
  return ranks;
}

std::vector<std::string> AllGatherPoller::Take() {
  std::vector<std::string> all;
  for (Part& part : parts_) all.push_back(std::move(part.text));
  return all;
}

BroadcastPoller::BroadcastPoller(int rank, int size, uint64_t call, std::vector<char> data,
                                 int root)
    : data_(std::move(data)), header_{call, kBroadcast, data_.size()} {
  // With root renumbered to 0, the parent of v is v without its lowest bit.
  const int v = (rank - root + size) % size;
  const int lowest = v == 0 ? size : v & -v;
  if (v != 0) parent_ = (v - lowest + root) % size;
  for (int bit = 1; bit < lowest && v + bit < size; bit *= 2)
    children_.push_back((v + bit + root) % size);
  std::reverse(children_.begin(), children_.end());  // the largest subtree first
}

size_t BroadcastPoller::ChunkBytes(size_t begin) const {
  return std::min(kBroadcastChunk, data_.size() - begin);
}

void BroadcastPoller::SendToChildren(Transport& transport, const void* data, size_t bytes) {
  for (int child : children_) sends_.push_back(transport.Send(child, kCollectiveTag, data, bytes));
}

bool BroadcastPoller::Poll(Transport& transport) {
  if (done_.load(std::memory_order_relaxed)) return false;
  started_ = true;
  bool moved = Sweep(transport, sends_);
  while (!has_header_ || have_ < data_.size()) {
    if (parent_ >= 0) {
      if (!receiving_) {
        receiving_ = true;
        receive_ = has_header_
                       ? transport.Receive(parent_, kCollectiveTag, data_.data() + have_,
                                           ChunkBytes(have_))
                       : transport.Receive(parent_, kCollectiveTag, &received_, sizeof received_);
      }
      if (!transport.Done(receive_)) break;
      receiving_ = false;
    }
    moved = true;
    if (!has_header_) {
      has_header_ = true;
      if (parent_ >= 0) CheckHeader(header_, received_, parent_);
      SendToChildren(transport, &header_, sizeof header_);
    } else {
      SendToChildren(transport, data_.data() + have_, ChunkBytes(have_));
      have_ += ChunkBytes(have_);
    }
  }
  if (sends_.empty() && has_header_ && have_ == data_.size())
    done_.store(true, std::memory_order_release);
  return moved;
}

std::vector<int> BroadcastPoller::WaitsFor() const {
  if (receiving_) return {parent_};
  return {};
}

}  // namespace carafe
