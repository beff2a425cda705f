// Rounding as an instruction asks for it.
#pragma once

#include <cfenv>
#include <cmath>
#include <limits>
#include <type_traits>

#include "tests/vgpu/ptx/module.h"

namespace carafe::vgpu::ptx {

// Changes the processor's rounding mode for its lifetime. The compiler must not know the operands
// (Opaque).
class Rounding {
 public:
  explicit Rounding(Round round) : changed_(round != Round::kNearest) {
    if (changed_) std::fesetround(ModeOf(round));
  }
  ~Rounding() {
    if (changed_) std::fesetround(FE_TONEAREST);
  }
  Rounding(const Rounding&) = delete;
  Rounding& operator=(const Rounding&) = delete;

 private:
  static int ModeOf(Round round) {
    if (round == Round::kZero) return FE_TOWARDZERO;
    return round == Round::kDown ? FE_DOWNWARD : FE_UPWARD;
  }
  const bool changed_;
};

// Keeps the compiler from moving what is computed with `value` across a change of the rounding
// mode.
template <typename T>
T Opaque(T value) {
  volatile T copy = value;
  return copy;
}

// .ftz: zero of the same sign for subnormal numbers. Only single precision has it.
template <typename T>
T Flushed(const Instruction& i, T value) {
  if (i.flush && value != 0 && std::abs(value) < std::numeric_limits<T>::min())
    return std::copysign(T{0}, value);
  return value;
}

// .sat: into [0, 1]; 0 for what is no number.
template <typename T>
T Saturated(const Instruction& i, T value) {
  if (!i.saturate) return value;
  if (!(value > 0)) return 0;
  return value < 1 ? value : T{1};
}

}  // namespace carafe::vgpu::ptx
