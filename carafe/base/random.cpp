#include "carafe/base/random.h"

#include <numbers>

#include "carafe/base/hash.h"

namespace carafe {

uint64_t HashName(std::string_view name) { return Hash64(name.data(), name.size(), 0); }

uint64_t MixSeed(uint64_t seed, uint64_t purpose) {  // the finaliser of splitmix64
  uint64_t x = seed + 0x9E3779B97F4A7C15u * (purpose | 1);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return (x ^ (x >> 31)) ^ purpose;
}

RandomKey MakeRandomKey(uint64_t seed, std::string_view layer, int64_t pass) {
  return {MixSeed(seed, HashName(layer)), pass};
}

uint32_t RandomSequence::Next32() {
  if (used_ == 4) {
    block_ = Philox(key_, counter_++, 0);
    used_ = 0;
  }
  return block_.v[used_++];
}

double RandomSequence::NextUniform() {
  const uint64_t high = Next32();
  const uint64_t low = Next32();
  return static_cast<double>(((high << 32) | low) >> 11) * 0x1.0p-53;
}

double RandomSequence::NextGaussian() {  // Box and Muller; the second value is not kept
  const double radius = std::sqrt(-2.0 * std::log(1.0 - NextUniform()));
  return radius * std::cos(2.0 * std::numbers::pi * NextUniform());
}

uint64_t RandomSequence::NextBelow(uint64_t n) {
  const uint64_t limit = UINT64_MAX - UINT64_MAX % n;
  while (true) {
    const uint64_t high = Next32();
    const uint64_t value = (high << 32) | Next32();
    if (value < limit) return value % n;
  }
}

}  // namespace carafe
