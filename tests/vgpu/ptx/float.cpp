// Arithmetic of floating-point numbers that IEEE 754 determines: add sub mul fma div rcp sqrt, and
// abs neg min max copysign testp.
#include <cmath>

#include "tests/vgpu/ptx/decode.h"
#include "tests/vgpu/ptx/rounding.h"
#include "tests/vgpu/ptx/thread.h"

namespace carafe::vgpu::ptx {
namespace {

struct Add {
  template <typename T>
  static T Of(T a, T b) {
    return a + b;
  }
};
struct Subtract {
  template <typename T>
  static T Of(T a, T b) {
    return a - b;
  }
};
struct Multiply {
  template <typename T>
  static T Of(T a, T b) {
    return a * b;
  }
};
struct Divide {
  template <typename T>
  static T Of(T a, T b) {
    return a / b;
  }
};
struct SquareRoot {
  template <typename T>
  static T Of(T a) {
    return std::sqrt(a);
  }
};
struct Reciprocal {
  template <typename T>
  static T Of(T a) {
    return T{1} / a;
  }
};

// Nearly all are rounded to nearest, with subnormal numbers.
bool IsPlain(const Instruction& i) { return i.round == Round::kNearest && !i.flush && !i.saturate; }

template <typename T>
T In(const Thread& t, const Instruction& i, int operand) {
  return Opaque(Flushed(i, t.Operand<T>(i, operand)));
}
template <typename T>
T Out(const Instruction& i, T value) {
  return Saturated(i, Flushed(i, value));
}

template <typename T, typename F>
void PlainBinary(Thread& t, const Instruction& i) {
  t.Result<T>(i, F::template Of<T>(t.Operand<T>(i, 1), t.Operand<T>(i, 2)));
}
template <typename T, typename F>
void Binary(Thread& t, const Instruction& i) {
  T result;
  {
    const Rounding rounding(i.round);
    result = Opaque(F::template Of<T>(In<T>(t, i, 1), In<T>(t, i, 2)));
  }
  t.Result<T>(i, Out(i, result));
}
template <typename T, typename F>
void Unary(Thread& t, const Instruction& i) {
  T result;
  {
    const Rounding rounding(i.round);
    result = Opaque(F::template Of<T>(In<T>(t, i, 1)));
  }
  t.Result<T>(i, Out(i, result));
}
template <typename T>
void PlainFma(Thread& t, const Instruction& i) {
  t.Result<T>(i, std::fma(t.Operand<T>(i, 1), t.Operand<T>(i, 2), t.Operand<T>(i, 3)));
}
template <typename T>
void Fma(Thread& t, const Instruction& i) {
  T result;
  {
    const Rounding rounding(i.round);
    result = Opaque(std::fma(In<T>(t, i, 1), In<T>(t, i, 2), In<T>(t, i, 3)));
  }
  t.Result<T>(i, Out(i, result));
}

template <typename T>
void Negate(Thread& t, const Instruction& i) {
  t.Result<T>(i, -Flushed(i, t.Operand<T>(i, 1)));
}
template <typename T>
void Absolute(Thread& t, const Instruction& i) {
  t.Result<T>(i, std::abs(Flushed(i, t.Operand<T>(i, 1))));
}
// The other one if one is no number; -0 is less than 0.
template <typename T, bool largest>
void Extreme(Thread& t, const Instruction& i) {
  const T a = Flushed(i, t.Operand<T>(i, 1)), b = Flushed(i, t.Operand<T>(i, 2));
  T result = a;
  if (std::isnan(a)) {
    result = b;
  } else if (!std::isnan(b)) {
    const bool b_is_less = b < a || (b == a && std::signbit(b));
    result = b_is_less == largest ? a : b;
  }
  if (i.option != 0 && (std::isnan(a) || std::isnan(b)))
    result = std::numeric_limits<T>::quiet_NaN();
  t.Result<T>(i, std::isnan(result) ? std::numeric_limits<T>::quiet_NaN() : result);
}
// PTX: the sign of a, the value of b.
template <typename T>
void CopySign(Thread& t, const Instruction& i) {
  t.Result<T>(i, std::copysign(t.Operand<T>(i, 2), t.Operand<T>(i, 1)));
}

enum Test : uint8_t { kFinite, kInfinite, kNumber, kNotANumber, kNormal, kSubnormal };

template <typename T>
void TestProperty(Thread& t, const Instruction& i) {
  const T a = t.Operand<T>(i, 1);
  bool result = false;
  switch (static_cast<Test>(i.option)) {
    case kFinite:
      result = std::isfinite(a);
      break;
    case kInfinite:
      result = std::isinf(a);
      break;
    case kNumber:
      result = !std::isnan(a);
      break;
    case kNotANumber:
      result = std::isnan(a);
      break;
    case kNormal:
      result = std::isnormal(a);
      break;
    case kSubnormal:
      result = std::fpclassify(a) == FP_SUBNORMAL;
      break;
  }
  t.Result<uint64_t>(i, result ? 1 : 0);
}

template <typename T, typename F>
Decoded BinaryOf(const Instruction& i) {
  return {IsPlain(i) ? PlainBinary<T, F> : Binary<T, F>, "dss"};
}

Decoded DecodeTest(Opcode& opcode, Instruction& i, bool is_double) {
  constexpr std::string_view kNames[] = {"finite",     "infinite", "number",
                                         "notanumber", "normal",   "subnormal"};
  for (uint8_t test = 0; test < std::size(kNames); ++test) {
    if (!opcode.Take(kNames[test])) continue;
    i.option = test;
    return {is_double ? TestProperty<double> : TestProperty<float>, "ds"};
  }
  return {};
}

template <typename T>
Decoded DecodeOf(Opcode& opcode, Instruction& i) {
  const std::string_view base = opcode.base();
  const std::optional<Round> round = opcode.TakeRound();
  i.round = round.value_or(Round::kNearest);
  if (std::is_same_v<T, float>) {
    i.flush = opcode.Take("ftz");
    i.saturate = opcode.Take("sat");
  }
  if (base == "add") return BinaryOf<T, Add>(i);
  if (base == "sub") return BinaryOf<T, Subtract>(i);
  if (base == "mul") return BinaryOf<T, Multiply>(i);
  if (round && base == "fma") return {IsPlain(i) ? PlainFma<T> : Fma<T>, "dsss"};
  if (round && base == "mad") return {IsPlain(i) ? PlainFma<T> : Fma<T>, "dsss"};
  if (round && !i.saturate) {
    if (base == "div") return BinaryOf<T, Divide>(i);
    if (base == "sqrt") return {Unary<T, SquareRoot>, "ds"};
    if (base == "rcp") return {Unary<T, Reciprocal>, "ds"};
  }
  if (round || i.saturate) return {};
  if (base == "neg") return {Negate<T>, "ds"};
  if (base == "abs") return {Absolute<T>, "ds"};
  if (base == "copysign" && !i.flush) return {CopySign<T>, "dss"};
  if (base == "min" || base == "max") {
    i.option = opcode.Take("NaN") ? 1 : 0;
    return {base == "min" ? Extreme<T, false> : Extreme<T, true>, "dss"};
  }
  if (base == "testp" && !i.flush) return DecodeTest(opcode, i, std::is_same_v<T, double>);
  return {};
}

}  // namespace

Decoded DecodeFloat(Opcode& opcode, Instruction& instruction) {
  const std::optional<Type> type = opcode.TakeType();
  if (type == Type::kF32) return DecodeOf<float>(opcode, instruction);
  if (type == Type::kF64) return DecodeOf<double>(opcode, instruction);
  return {};
}

}  // namespace carafe::vgpu::ptx
