// One direction between two ranks of a host: memory that both have mapped, written by the sender
// and read by the receiver without locks. Frames lie in a ring buffer. The content of a short
// message is part of its frame; that of a longer one lies in a slot until the receiver has read it,
// or stays in memory of the sender that the receiver can map.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace carafe {

constexpr size_t kInlineBytes = 4096;  // content inside a frame, at most
constexpr size_t kRingBytes = size_t{64} << 10;
constexpr int kRingSlots = 4;
constexpr size_t kRingSlotBytes = size_t{256} << 10;
constexpr int kRingViews = 8;  // contents at a time that stay in memory of the sender
constexpr size_t kRingPage = 4096;

// The shared memory itself. Zeros are an empty ring. Pages that are never touched cost nothing.
struct ShmRing {
  static_assert(std::atomic<uint64_t>::is_always_lock_free);
  struct alignas(64) Counter {
    std::atomic<uint64_t> value;
  };
  Counter written;                          // bytes of frames so far; stored by the sender
  Counter read;                             // the same, stored by the receiver
  Counter in_use[kRingSlots + kRingViews];  // 1: the receiver has not released it yet
  alignas(64) char frames[kRingBytes];
  alignas(4096) char slots[kRingSlots][kRingSlotBytes + kRingPage];
};
static_assert(sizeof(ShmRing) % 4096 == 0);

// Describes a message, or a part of a long one.
struct FrameHeader {
  int32_t tag = 0;
  int32_t slot = -1;      // -1: the content follows the header; below kRingSlots: it is in that
                          // slot; from kRingSlots on: it stays in memory of the sender
  uint64_t bytes = 0;     // of the whole message
  uint64_t begin = 0;     // of this part in the message
  uint64_t length = 0;    // of this part
  uint64_t position = 0;  // in the slot, or in the sender's memory
  // The sender's memory, if the content stays there (core/shareable_memory.h).
  uint64_t memory_id = 0;
  uint64_t memory_bytes = 0;
  int32_t memory_descriptor = -1;
  bool is_view() const { return slot >= kRingSlots; }
  bool in_slot() const { return slot >= 0 && !is_view(); }
};
static_assert(sizeof(FrameHeader) <= 64);  // one cache line

// The sender's end; one thread at a time. Functions return false if the ring is full.
class RingWriter {
 public:
  explicit RingWriter(ShmRing* ring = nullptr) : ring_(ring) {}
  bool TryWrite(const FrameHeader& header, const void* content);  // content inside the frame
  int FindSlot() const;                                           // a free one, or -1
  // Copies header.length bytes to the slot header.slot.
  bool TryWriteSlot(FrameHeader header, const void* content);
  // For content that stays in memory of the sender; header.slot is free.
  bool TryWriteView(const FrameHeader& header);
  bool InUse(int slot) const {
    return ring_->in_use[slot].value.load(std::memory_order_acquire) != 0;
  }

 private:
  char* Reserve(size_t bytes);
  void Publish(const FrameHeader& header, char* frame);

  ShmRing* ring_;
  uint64_t written_ = 0;
  uint64_t read_ = 0;  // lower bound of what the receiver has read
};

// The receiver's end; one thread at a time.
class RingReader {
 public:
  explicit RingReader(ShmRing* ring = nullptr) : ring_(ring) {}
  // The next frame, or null. Its content is valid until Pop if it is inside the frame, until
  // ReleaseSlot if it is in a slot. Not for content that stays in memory of the sender.
  const FrameHeader* Peek();
  const char* content(const FrameHeader& header) const {
    return header.slot < 0 ? reinterpret_cast<const char*>(&header + 1)
                           : ring_->slots[header.slot] + header.position;
  }
  void Pop();
  void ReleaseSlot(int slot) { ring_->in_use[slot].value.store(0, std::memory_order_release); }

 private:
  ShmRing* ring_;
  uint64_t read_ = 0;
};

}  // namespace carafe
