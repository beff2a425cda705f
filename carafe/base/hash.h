// 64-bit hashes (XXH3) of names, weights and plans, equal on every machine of the same byte order.
#pragma once

#include <cstddef>
#include <cstdint>

namespace carafe {

uint64_t Hash64(const void* data, size_t bytes, uint64_t seed);

}  // namespace carafe
