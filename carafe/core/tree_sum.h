// The one order in which parts of several workers are added: a balanced binary tree over the worker
// index, ((0+1)+(2+3))+((4+5)+6) for seven. All code that adds parts in host memory uses this, so a
// sum has the same bits whatever the bucket, chunk, owner or timing.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <numeric>
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

// The tree sum of the sums of trees of sizes[0 .. n-1] neighbouring parts each.
template <typename T>
const T* TreeOfTrees(const T* const* parts, const int* sizes, size_t n, int64_t begin, int64_t len,
                     T* room) {
  if (n == 1) return Subtree(parts, static_cast<size_t>(sizes[0]), begin, len, room);
  const size_t left_count = std::bit_floor(n - 1);
  const int left_parts = std::accumulate(sizes, sizes + left_count, 0);
  const T* left = TreeOfTrees(parts, sizes, left_count, begin, len, room);
  const T* right = TreeOfTrees(parts + left_parts, sizes + left_count, n - left_count, begin, len,
                               room + kTreeBlock);
  for (int64_t i = 0; i < len; ++i) room[i] = left[i] + right[i];
  return room;
}

constexpr int kLevels = 32;

}  // namespace tree_sum_detail

// y[i] = the tree sum of parts[w][i] over w. y may be one of the parts; at least one part.
template <typename T>
void TreeSum(std::span<const T* const> parts, int64_t count, T* y) {
  std::array<T, tree_sum_detail::kLevels * kTreeBlock> room;
  for (int64_t begin = 0; begin < count; begin += kTreeBlock) {
    const int64_t len = std::min(kTreeBlock, count - begin);
    const T* sum = tree_sum_detail::Subtree(parts.data(), parts.size(), begin, len, room.data());
    if (sum != y + begin) std::copy(sum, sum + len, y + begin);
  }
}

// The same of trees over the hosts and over their ranks: sizes[h] neighbouring parts are of host h.
template <typename T>
void TreeSumOfTrees(std::span<const T* const> parts, std::span<const int> sizes, int64_t count,
                    T* y) {
  std::array<T, tree_sum_detail::kLevels * kTreeBlock> room;
  for (int64_t begin = 0; begin < count; begin += kTreeBlock) {
    const int64_t len = std::min(kTreeBlock, count - begin);
    const T* sum = tree_sum_detail::TreeOfTrees(parts.data(), sizes.data(), sizes.size(), begin,
                                                len, room.data());
    if (sum != y + begin) std::copy(sum, sum + len, y + begin);
  }
}

}  // namespace carafe
