#include "carafe/comm/shm_ring.h"

#include <algorithm>
#include <cstring>

#include "carafe/base/error.h"

namespace carafe {
namespace {

constexpr int32_t kPadding = -1;  // as a tag: the rest of the ring is skipped
constexpr size_t kUnit = 64;      // frames begin at multiples of this

// Where in the slot to begin, so that content and copy lie half a page apart, modulo pages. Copies
// and sums between addresses that are almost equal modulo pages take twice as long, because a load
// seems to depend on the store just before it. Buffers of different ranks usually begin at equal
// addresses modulo pages, so this helps the receiver too.
size_t HalfAPageApart(const void* content, const char* slot) {
  const auto low = [](const void* address) {
    return reinterpret_cast<uintptr_t>(address) % kRingPage;
  };
  return (low(content) + kRingPage + kRingPage / 2 - low(slot)) % kRingPage / kUnit * kUnit;
}

size_t FrameBytes(const FrameHeader& header) {
  const size_t bytes = sizeof(FrameHeader) + (header.slot < 0 ? header.length : 0);
  return (bytes + kUnit - 1) / kUnit * kUnit;
}

}  // namespace

// Contiguous space for a frame, padding the end of the ring if needed; null: there is none now.
char* RingWriter::Reserve(size_t bytes) {
  const size_t at = written_ % kRingBytes;
  const size_t padding = at + bytes > kRingBytes ? kRingBytes - at : 0;
  if (written_ + padding + bytes - read_ > kRingBytes) {
    read_ = ring_->read.value.load(std::memory_order_acquire);
    if (written_ + padding + bytes - read_ > kRingBytes) return nullptr;
  }
  if (padding > 0) {
    new (ring_->frames + at) FrameHeader{.tag = kPadding};
    written_ += padding;
  }
  return ring_->frames + written_ % kRingBytes;
}

bool RingWriter::TryWrite(const FrameHeader& header, const void* content) {
  Ensure(header.length <= kInlineBytes && header.slot < 0, "a frame of too many bytes");
  const size_t bytes = FrameBytes(header);
  char* frame = Reserve(bytes);
  if (!frame) return false;
  new (frame) FrameHeader(header);
  if (header.length > 0) std::memcpy(frame + sizeof(FrameHeader), content, header.length);
  written_ += bytes;
  ring_->written.value.store(written_, std::memory_order_release);
  return true;
}

int RingWriter::FindSlot() const {
  for (int i = 0; i < kRingSlots; ++i)  // the first is the one that is still in the cache
    if (!InUse(i)) return i;
  return -1;
}

bool RingWriter::TryWriteSlot(FrameHeader header, const void* content) {
  char* frame = Reserve(kUnit);
  if (!frame) return false;
  char* slot = ring_->slots[header.slot];
  header.position = HalfAPageApart(content, slot);
  std::memcpy(slot + header.position, content, header.length);
  Publish(header, frame);
  return true;
}

bool RingWriter::TryWriteView(const FrameHeader& header) {
  char* frame = Reserve(kUnit);
  if (!frame) return false;
  Publish(header, frame);
  return true;
}

void RingWriter::Publish(const FrameHeader& header, char* frame) {
  new (frame) FrameHeader(header);
  ring_->in_use[header.slot].value.store(1, std::memory_order_relaxed);
  written_ += kUnit;
  ring_->written.value.store(written_, std::memory_order_release);
}

const FrameHeader* RingReader::Peek() {
  while (ring_->written.value.load(std::memory_order_acquire) != read_) {
    const size_t at = read_ % kRingBytes;
    const auto* header = reinterpret_cast<const FrameHeader*>(ring_->frames + at);
    if (header->tag != kPadding) return header;
    read_ += kRingBytes - at;
    ring_->read.value.store(read_, std::memory_order_release);
  }
  return nullptr;
}

void RingReader::Pop() {
  const auto* header = reinterpret_cast<const FrameHeader*>(ring_->frames + read_ % kRingBytes);
  read_ += FrameBytes(*header);
  ring_->read.value.store(read_, std::memory_order_release);
}

}  // namespace carafe
