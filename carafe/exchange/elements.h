// Arithmetic on the elements of a transfer, so that the engine itself knows bytes only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace carafe {

// Stateless functions on host memory; any thread.
struct ElementType {
  size_t bytes;  // of one element
  // y = the sum of the parts in the fixed tree (core/tree_sum.h); y may be one of the parts.
  void (*sum)(std::span<const void* const> parts, int64_t count, void* y);
  void (*add)(const void* x, int64_t count, void* y);  // y += x
  // y *= numerator / denominator, which is rounded first.
  void (*scale)(int64_t numerator, int64_t denominator, int64_t count, void* y);
  // y = the tree sum of the tree sums of neighbouring parts, sizes[i] of them each.
  void (*sum_of_trees)(std::span<const void* const> parts, std::span<const int> sizes,
                       int64_t count, void* y);
};

template <typename T>  // float, double
const ElementType& ElementsOf();

}  // namespace carafe
