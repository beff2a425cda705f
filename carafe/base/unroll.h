// Loops that the compiler must unroll, and functions that it must inline: for inner loops whose
// arrays of vectors are to become registers.
#pragma once

#include <type_traits>
#include <utility>

#define CARAFE_INLINE inline __attribute__((always_inline))
#define CARAFE_INLINE_LAMBDA __attribute__((always_inline))

namespace carafe {

// Calls f(std::integral_constant<int, 0>), .. f(.. kCount - 1), unrolled.
template <int kCount, typename F>
CARAFE_INLINE void Unroll(const F& f) {
  [&]<int... i>(std::integer_sequence<int, i...>) CARAFE_INLINE_LAMBDA {
    (f(std::integral_constant<int, i>()), ...);
  }
  (std::make_integer_sequence<int, kCount>());
}

}  // namespace carafe
