// The one order in which parts of several workers are added: a balanced binary tree over the worker
// index, ((0+1)+(2+3))+((4+5)+6) for seven. Whoever adds parts in host memory uses this, so a sum
// has the same bits whatever the bucket, chunk, owner or timing.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>

namespace carafe {

constexpr int64_t kTreeBlock = 512;  // elements added at a time, so that partial sums stay in cache

namespace tree_sum_detail {

// Returns the sum of parts[0 .. n-1] over [begin, begin+len): a part itself if n is 1, else `room`,
// which has kTreeBlock elements for each level of the tree.
template <typename T>
const T* Subtree(const T* const* parts, size_t n, int64_t begin, int64_t len, T* room) {
  if (n == 1) return parts[0] + begin;
  const size_t left_count = std::bit_floor(n - 1);
  const T* left = Subtree(parts, left_count, begin, len, room);
  const T* right = Subtree(parts + left_count, n - left_count, begin, len, room + kTreeBlock);
  for (int64_t i = 0; i < len; ++i) room[i] = left[i] + right[i];
  return room;
}

}  // namespace tree_sum_detail

// y[i] = the tree sum of parts[w][i] over w. y may be one of the parts; at least one part.
template <typename T>
void TreeSum(std::span<const T* const> parts, int64_t count, T* y) {
  constexpr int kLevels = 32;
  std::array<T, kLevels * kTreeBlock> room;
  for (int64_t begin = 0; begin < count; begin += kTreeBlock) {
    const int64_t len = std::min(kTreeBlock, count - begin);
    const T* sum = tree_sum_detail::Subtree(parts.data(), parts.size(), begin, len, room.data());
    if (sum != y + begin) std::copy(sum, sum + len, y + begin);
  }
}

}  // namespace carafe
