#include "carafe/core/memory_pool.h"

#include <algorithm>
#include <cstring>

#include "carafe/base/error.h"
#include "carafe/core/pinned.h"

namespace carafe {
namespace {

constexpr size_t kLine = 64;          // as aligned as a device's memory is
constexpr size_t kManyRanges = 1024;  // room for them from the start: no allocation later

}  // namespace

FreeRanges::FreeRanges(size_t bytes) {
  ranges_.reserve(kManyRanges);
  ranges_.push_back({0, bytes});
}

size_t FreeRanges::SmallestFit(size_t bytes) const {
  size_t best = kNone;
  for (const Range& range : ranges_) {
    if (range.bytes >= bytes && range.bytes < best) best = range.bytes;
  }
  return best;
}

size_t FreeRanges::Take(size_t bytes) {
  const size_t fit = SmallestFit(bytes);
  const auto range =
      std::ranges::find_if(ranges_, [&](const Range& candidate) { return candidate.bytes == fit; });
  Ensure(range != ranges_.end(), "memory was taken from a range that is full");
  const size_t offset = range->offset;
  range->offset += bytes;
  range->bytes -= bytes;
  if (range->bytes == 0) ranges_.erase(range);
  return offset;
}

void FreeRanges::Give(size_t offset, size_t bytes) {
  const auto next = std::ranges::upper_bound(ranges_, offset, {}, &Range::offset);
  const bool before = next != ranges_.begin() && (next - 1)->offset + (next - 1)->bytes == offset;
  const bool after = next != ranges_.end() && offset + bytes == next->offset;
  if (before && after) {
    (next - 1)->bytes += bytes + next->bytes;
    ranges_.erase(next);
  } else if (before) {
    (next - 1)->bytes += bytes;
  } else if (after) {
    next->offset = offset;
    next->bytes += bytes;
  } else {
    ranges_.insert(next, {offset, bytes});
  }
}

MemoryPool::~MemoryPool() { DropSegments(); }

size_t MemoryPool::Rounded(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine + kLine; }

void MemoryPool::Reserve(Stream& stream, size_t bytes) {
  if (in_use_ > 0 || (segments_.size() == 1 && bytes_ >= bytes)) return;
  const size_t all = std::max(bytes, bytes_);
  DropSegments();
  if (all > 0) AddSegment(stream.device(), all);
}

void* MemoryPool::Take(Stream& stream, size_t bytes) {
  bytes = Rounded(bytes);
  Segment* best = nullptr;
  size_t fit = FreeRanges::kNone;
  for (Segment& segment : segments_) {
    Ensure(segment.device == &stream.device(), "a pool of memory was used on two devices");
    const size_t candidate = segment.free.SmallestFit(bytes);
    if (candidate >= fit) continue;
    fit = candidate;
    best = &segment;
  }
  if (best == nullptr) {
    AddSegment(stream.device(), bytes);
    best = &segments_.back();
  }
  in_use_ += bytes;
  peak_ = std::max(peak_, in_use_);
  return best->memory + best->free.Take(bytes);
}

void MemoryPool::Give(void* memory, size_t bytes) noexcept {
  bytes = Rounded(bytes);
  const char* const begin = static_cast<char*>(memory);
  const auto segment = std::ranges::find_if(
      segments_, [&](const Segment& s) { return begin >= s.memory && begin < s.memory + s.bytes; });
  if (segment == segments_.end()) return;
  if (poison_ && segment->device->kind() == DeviceKind::kCpu) std::memset(memory, 0xff, bytes);
  segment->free.Give(static_cast<size_t>(begin - segment->memory), bytes);
  in_use_ -= bytes;
}

void MemoryPool::AddSegment(Device& device, size_t bytes) {
  auto* memory = static_cast<char*>(device.Allocate(bytes));
  segments_.push_back({&device, memory, bytes, FreeRanges(bytes)});
  bytes_ += bytes;
}

void MemoryPool::DropSegments() noexcept {
  for (Segment& segment : segments_) FreeUnpinned(*segment.device, segment.memory, segment.bytes);
  segments_.clear();
  bytes_ = 0;
}

}  // namespace carafe
