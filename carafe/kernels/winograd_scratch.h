// Sizes and places of what the passes keep in their scratch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "carafe/kernels/winograd_tiles.h"

namespace carafe::winograd {

constexpr int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t RoundUp(int64_t a, int64_t b) { return DivideUp(a, b) * b; }

constexpr size_t kLineFloats = 16;  // 64 bytes
constexpr size_t RoundToLines(size_t floats) {
  return (floats + kLineFloats - 1) / kLineFloats * kLineFloats;
}

// From one point's matrix to the next one's. One line more than needed: were strides multiples of
// 4096 bytes, the 36 matrices that a transform writes to would compete for the same few places in
// the cache.
constexpr size_t ElementStride(size_t floats) { return RoundToLines(floats) + kLineFloats; }

// From one block of 8 channels to the next: an odd number of lines, for the same reason. The
// products read a few tiles of every block (14x14 pixels, 512 channels: 208 -> 255 GFLOP/s).
constexpr size_t BlockStride(int64_t tiles) {
  return RoundToLines(static_cast<size_t>(tiles) * 8) | kLineFloats;
}

// Tiles of a block: enough to pay for reading 32 channels of filters, few enough to stay in the
// cache (measured).
constexpr int64_t PreferredTiles(int64_t channels) {
  return channels <= 64 ? 24 : channels <= 256 ? 72 : 102;
}

constexpr size_t TileFloats(int64_t tiles) {
  return RoundToLines(static_cast<size_t>(tiles) * sizeof(Tile) / sizeof(float));
}

}  // namespace carafe::winograd
