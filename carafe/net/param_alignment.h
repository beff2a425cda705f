// How parameters lie in a net's arenas of values and gradients.
#pragma once

#include <cstdint>

namespace carafe {

// Each starts at a multiple of this many elements, so that vector loads are aligned.
constexpr int64_t kAlignElements = 16;

constexpr int64_t AlignedCount(int64_t count) {
  return (count + kAlignElements - 1) / kAlignElements * kAlignElements;
}

}  // namespace carafe
