#include "carafe/base/hash.h"

#include <xxhash.h>

namespace carafe {

uint64_t Hash64(const void* data, size_t bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(data, bytes, seed);
}

}  // namespace carafe
