// Random numbers as a pure function of (key, counter): Philox 4x32-10. No state, so a draw does not
// depend on rank, thread or order, only on what it is for. Usable in kernels.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

#include "carafe/base/host_device.h"

namespace carafe {

struct Philox4 {
  uint32_t v[4];
};

// The 10-round Philox 4x32 block function (Salmon et al., SC'11).
CARAFE_HD inline Philox4 Philox(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  uint32_t c0 = static_cast<uint32_t>(counter_low), c1 = static_cast<uint32_t>(counter_low >> 32);
  uint32_t c2 = static_cast<uint32_t>(counter_high), c3 = static_cast<uint32_t>(counter_high >> 32);
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c0;
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c2;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {{c0, c1, c2, c3}};
}

// Names one stream of draws: Philox(seed, layer, pass n, slot j, element), as design and docs fix
// it.
struct RandomKey {
  uint64_t key = 0;  // of seed and layer
  int64_t pass = 0;

  // The 32 random bits of element `element` in slot `slot` of this pass.
  CARAFE_HD uint32_t Bits(int64_t slot, int64_t element) const {
    const uint64_t low = (static_cast<uint64_t>(slot) << 32) | static_cast<uint32_t>(element >> 2);
    return Philox(key, low, static_cast<uint64_t>(pass)).v[element & 3];
  }
  // Uniform in [0, 1), 24 bits.
  CARAFE_HD float Uniform(int64_t slot, int64_t element) const {
    return static_cast<float>(Bits(slot, element) >> 8) * (1.0f / 16777216.0f);
  }
};

uint64_t HashName(std::string_view name);           // 64-bit, stable across machines
uint64_t MixSeed(uint64_t seed, uint64_t purpose);  // one key out of two numbers
RandomKey MakeRandomKey(uint64_t seed, std::string_view layer, int64_t pass);

// A plain sequence of draws on the host, for fillers, shuffles and the digit generator.
class RandomSequence {
 public:
  explicit RandomSequence(uint64_t key) : key_(key) {}
  uint32_t Next32();
  double NextUniform();            // [0, 1), 53 bits
  double NextGaussian();           // mean 0, deviation 1
  uint64_t NextBelow(uint64_t n);  // 0 .. n-1, unbiased

 private:
  const uint64_t key_;
  uint64_t counter_ = 0;
  Philox4 block_{};
  int used_ = 4;
};

}  // namespace carafe
