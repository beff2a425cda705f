// For tests: the fixed tree written down element by element, and values that show any other order.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "carafe/exchange/host_layout.h"

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

// The order of a layout: the tree over the hosts of the trees over their ranks; over all ranks if
// the layout is unknown.
template <typename T, typename P>
T LayoutByHand(const HostLayout& hosts, int ranks, const P& part) {
  if (!hosts.known()) return TreeByHand<T>(0, ranks, part);
  return TreeByHand<T>(0, hosts.hosts(), [&](int host) {
    const std::vector<int>& local = hosts.ranks(host);
    return TreeByHand<T>(0, static_cast<int>(local.size()),
                         [&](int i) { return part(local.at(static_cast<size_t>(i))); });
  });
}

}  // namespace carafe
