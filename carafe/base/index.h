// Element access by any integer type. Ids of layers, blobs, parameters and ranks are `int`, and
// containers are indexed by size_t: the one conversion is here.
#pragma once

#include <cstddef>

namespace carafe {

// v[i]. `i` must not be negative.
template <typename Container, typename Integer>
constexpr decltype(auto) At(Container&& v, Integer i) {
  return v[static_cast<std::size_t>(i)];
}

// The size of a container as an int, for loops over ids.
template <typename Container>
constexpr int Count(const Container& v) {
  return static_cast<int>(v.size());
}

}  // namespace carafe
