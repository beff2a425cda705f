// Parameters for tests of the exchange.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <vector>

#include "carafe/exchange/exchange.h"

namespace carafe {

// Parameters in an arena whose order is the reverse of their index, aligned to `align` elements.
template <typename T>
struct Arena {
  explicit Arena(const std::vector<int64_t>& counts, int64_t align = 1) {
    int64_t at = 0;
    std::vector<int64_t> offsets(counts.size());
    for (size_t p = counts.size(); p-- > 0;) {
      offsets[p] = at;
      at += (counts[p] + align - 1) / align * align;
    }
    memory.resize(at);
    for (size_t p = 0; p < counts.size(); ++p)
      params.push_back({.name = fmt::format("p{}", p),
                        .count = counts[p],
                        .gradient = memory.data() + offsets[p],
                        .arena_offset = offsets[p]});
  }
  std::vector<T> memory;
  std::vector<ParamInfo<T>> params;
};

}  // namespace carafe
