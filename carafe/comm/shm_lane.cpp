#include "carafe/comm/shm_lane.h"

#include <algorithm>
#include <cstring>

#include "carafe/base/error.h"

namespace carafe {
namespace {

constexpr int32_t kPadding = -1;  // as a tag: the rest of the ring is left out
constexpr size_t kUnit = 64;      // letters begin at multiples of this

// Where in the slot to begin, so that content and copy lie half a page apart, modulo pages. Copies
// and sums between addresses that are almost equal modulo pages take twice as long: a load seems to
// need what a store just before it writes. Buffers of the ranks begin alike as a rule, so this
// serves the receiver too.
size_t HalfAPageApart(const void* content, const char* slot) {
  const auto low = [](const void* address) {
    return reinterpret_cast<uintptr_t>(address) % kLanePage;
  };
  return (low(content) + kLanePage + kLanePage / 2 - low(slot)) % kLanePage / kUnit * kUnit;
}

size_t Footprint(const Letter& letter) {
  const size_t bytes = sizeof(Letter) + (letter.slot < 0 ? letter.length : 0);
  return (bytes + kUnit - 1) / kUnit * kUnit;
}

}  // namespace

// Contiguous room for a letter, padding the end of the ring where it must; null: none now.
char* LaneWriter::Room(size_t bytes) {
  const size_t at = written_ % kLaneRing;
  const size_t padding = at + bytes > kLaneRing ? kLaneRing - at : 0;
  if (written_ + padding + bytes - read_ > kLaneRing) {
    read_ = lane_->read.value.load(std::memory_order_acquire);
    if (written_ + padding + bytes - read_ > kLaneRing) return nullptr;
  }
  if (padding > 0) {
    new (lane_->ring + at) Letter{.tag = kPadding};
    written_ += padding;
  }
  return lane_->ring + written_ % kLaneRing;
}

bool LaneWriter::TryWrite(const Letter& letter, const void* content) {
  Ensure(letter.length <= kLetterBytes && letter.slot < 0, "a letter of too many bytes");
  const size_t bytes = Footprint(letter);
  char* room = Room(bytes);
  if (!room) return false;
  new (room) Letter(letter);
  if (letter.length > 0) std::memcpy(room + sizeof(Letter), content, letter.length);
  written_ += bytes;
  lane_->written.value.store(written_, std::memory_order_release);
  return true;
}

int LaneWriter::FindSlot() const {
  for (int i = 0; i < kLaneSlots; ++i)  // the first is the one that is still in the cache
    if (!IsLent(i)) return i;
  return -1;
}

bool LaneWriter::TryLend(Letter letter, const void* content) {
  char* room = Room(kUnit);
  if (!room) return false;
  char* slot = lane_->slots[letter.slot];
  letter.at = HalfAPageApart(content, slot);
  std::memcpy(slot + letter.at, content, letter.length);
  return Hand(letter, room);
}

bool LaneWriter::TryShow(const Letter& letter) {
  char* room = Room(kUnit);
  return room && Hand(letter, room);
}

bool LaneWriter::Hand(const Letter& letter, char* room) {
  new (room) Letter(letter);
  lane_->lent[letter.slot].value.store(1, std::memory_order_relaxed);
  written_ += kUnit;
  lane_->written.value.store(written_, std::memory_order_release);
  return true;
}

const Letter* LaneReader::Peek() {
  while (lane_->written.value.load(std::memory_order_acquire) != read_) {
    const size_t at = read_ % kLaneRing;
    const auto* letter = reinterpret_cast<const Letter*>(lane_->ring + at);
    if (letter->tag != kPadding) return letter;
    read_ += kLaneRing - at;
    lane_->read.value.store(read_, std::memory_order_release);
  }
  return nullptr;
}

void LaneReader::Pop() {
  const auto* letter = reinterpret_cast<const Letter*>(lane_->ring + read_ % kLaneRing);
  read_ += Footprint(*letter);
  lane_->read.value.store(read_, std::memory_order_release);
}

}  // namespace carafe
