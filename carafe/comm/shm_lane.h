// One direction between two ranks of a host: memory that both have mapped, written by the sender
// and read by the receiver without locks. Short messages lie in a ring of letters; the letters of
// long ones name a slot that holds the content until the receiver has done with it, or say where it
// lies in memory of the sender's that the receiver can map.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace carafe {

constexpr size_t kLetterBytes = 4096;  // content of a letter, at most
constexpr size_t kLaneRing = size_t{64} << 10;
constexpr int kLaneSlots = 4;
constexpr int kLanePlaces = 8;  // contents at a time that stay where the sender has them
constexpr size_t kLaneSlotBytes = size_t{256} << 10;
constexpr size_t kLanePage = 4096;

// As it lies in memory. Zeros are an empty lane. Pages that nobody touches cost nothing.
struct Lane {
  static_assert(std::atomic<uint64_t>::is_always_lock_free);
  struct alignas(64) Counter {
    std::atomic<uint64_t> value;
  };
  Counter written;                         // bytes of letters, ever; by the sender
  Counter read;                            // by the receiver
  Counter lent[kLaneSlots + kLanePlaces];  // 1: belongs to the receiver
  alignas(64) char ring[kLaneRing];
  alignas(4096) char slots[kLaneSlots][kLaneSlotBytes + kLanePage];
};
static_assert(sizeof(Lane) % 4096 == 0);

// What a message, or a piece of a long one, is. Content follows in the ring, or lies in a slot.
struct Letter {
  int32_t tag = 0;
  int32_t slot = -1;   // -1: the content follows; from kLaneSlots on: it stays with the sender
  uint64_t bytes = 0;  // of the whole message
  uint64_t begin = 0;  // of this piece in the message
  uint64_t length = 0;
  uint64_t at = 0;  // where in the slot, or in the sender's memory
  // Of content that stays with the sender: which memory (core/shareable_memory.h).
  uint64_t memory_id = 0;
  uint64_t memory_bytes = 0;
  int32_t memory_descriptor = -1;
  bool stays() const { return slot >= kLaneSlots; }
};
static_assert(sizeof(Letter) <= 64);  // one line

// The sender's end; one thread at a time.
class LaneWriter {
 public:
  explicit LaneWriter(Lane* lane = nullptr) : lane_(lane) {}
  // False: there is no room now.
  bool TryWrite(const Letter& letter, const void* content);
  int FindSlot() const;  // a free one, or -1
  // Copies the content of letter.length bytes to slot letter.slot and hands it over.
  bool TryLend(Letter letter, const void* content);
  // The same without a copy, for content that stays; the slot is a place that is free.
  bool TryShow(const Letter& letter);
  bool IsLent(int slot) const {
    return lane_->lent[slot].value.load(std::memory_order_acquire) != 0;
  }

 private:
  char* Room(size_t bytes);
  bool Hand(const Letter& letter, char* room);

  Lane* lane_;
  uint64_t written_ = 0;
  uint64_t read_ = 0;  // at least
};

// The receiver's end; one thread at a time.
class LaneReader {
 public:
  explicit LaneReader(Lane* lane = nullptr) : lane_(lane) {}
  // The next letter, whose content is valid until Pop if it is in the ring, else until
  // ReturnSlot. Null: there is none. Content that stays with the sender is not found here.
  const Letter* Peek();
  const char* content(const Letter& letter) const {
    return letter.slot < 0 ? reinterpret_cast<const char*>(&letter + 1)
                           : lane_->slots[letter.slot] + letter.at;
  }
  void Pop();
  void ReturnSlot(int slot) { lane_->lent[slot].value.store(0, std::memory_order_release); }

 private:
  Lane* lane_;
  uint64_t read_ = 0;
};

}  // namespace carafe
