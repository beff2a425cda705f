// For tests: the fixed tree written down element by element, and values that show any other order.
#pragma once

#include <bit>
#include <cstdint>

namespace carafe {

template <typename T>
T OrderSensitive(int rank, int64_t i) {
  const int64_t key = rank * 7919 + i * 104729;
  return T(1) / T(1 + key % 1009) - T(key % 3) / T(7);
}

// The sum of part(begin) .. part(begin + n - 1).
template <typename T, typename P>
T TreeByHand(int begin, int n, const P& part) {
  if (n == 1) return part(begin);
  const int left = static_cast<int>(std::bit_floor(static_cast<unsigned>(n - 1)));
  return TreeByHand<T>(begin, left, part) + TreeByHand<T>(begin + left, n - left, part);
}

}  // namespace carafe
