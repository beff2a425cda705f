#include "carafe/core/pinned.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

namespace carafe {
namespace {

struct Waiting {  // memory that would have been freed
  Device* device;
  const char* end;
};

struct Pins {
  std::mutex mutex;
  std::atomic<int64_t> total{0};
  std::map<const char*, int> count;        // pins by the address that they hold
  std::map<const char*, Waiting> waiting;  // by where it starts

  bool AnyIn(const char* begin, const char* end) const {
    const auto found = count.lower_bound(begin);
    return found != count.end() && found->first < end;
  }
};

// Never destroyed: arrays may be let go while the process ends.
Pins& AllPins() {
  static Pins& pins = *new Pins;
  return pins;
}

}  // namespace

Pin::Pin(const void* memory) : memory_(memory) {
  Pins& pins = AllPins();
  const std::lock_guard lock(pins.mutex);
  ++pins.count[static_cast<const char*>(memory)];
  ++pins.total;
}

Pin::~Pin() {
  Pins& pins = AllPins();
  const std::lock_guard lock(pins.mutex);
  const char* const address = static_cast<const char*>(memory_);
  const auto found = pins.count.find(address);
  --pins.total;
  if (--found->second > 0) return;
  pins.count.erase(found);
  auto piece = pins.waiting.upper_bound(address);
  if (piece == pins.waiting.begin()) return;
  --piece;
  const auto [begin, waiting] = *piece;
  if (address >= waiting.end || pins.AnyIn(begin, waiting.end)) return;
  pins.waiting.erase(piece);
  waiting.device->Free(const_cast<char*>(begin));
}

bool HasPin(const void* memory, size_t bytes) {
  Pins& pins = AllPins();
  if (pins.total == 0) return false;
  const std::lock_guard lock(pins.mutex);
  const char* const begin = static_cast<const char*>(memory);
  return pins.AnyIn(begin, begin + bytes);
}

void FreeUnpinned(Device& device, void* memory, size_t bytes) noexcept {
  Pins& pins = AllPins();
  {
    const std::lock_guard lock(pins.mutex);
    const char* const begin = static_cast<const char*>(memory);
    const char* const end = begin + (bytes == 0 ? 1 : bytes);
    if (pins.AnyIn(begin, end)) {
      pins.waiting[begin] = {&device, end};
      return;
    }
  }
  device.Free(memory);
}

}  // namespace carafe
