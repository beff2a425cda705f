// Conversions: cvt, and cvta between the spaces' addresses and generic ones.
#include <cmath>
#include <limits>

#include "tests/vgpu/ptx/decode.h"
#include "tests/vgpu/ptx/rounding.h"
#include "tests/vgpu/ptx/thread.h"

namespace carafe::vgpu::ptx {
namespace {

constexpr uint8_t kToIntegral = 1;  // .rni and the like: to a whole number

// As a conversion between integers does, or to the nearest that fits (.sat).
template <typename From, typename To>
void IntegerToInteger(Thread& t, const Instruction& i) {
  const From a = t.Operand<From>(i, 1);
  if (i.saturate) {
    const __int128 wide = a, low = std::numeric_limits<To>::min(),
                   high = std::numeric_limits<To>::max();
    t.Result<To>(i, static_cast<To>(wide < low ? low : wide > high ? high : wide));
  } else {
    t.Result<To>(i, static_cast<To>(a));
  }
}

template <typename From, typename To>
void IntegerToFloat(Thread& t, const Instruction& i) {
  To result;
  {
    const Rounding rounding(i.round);
    result = Opaque(static_cast<To>(Opaque(t.Operand<From>(i, 1))));
  }
  t.Result<To>(i, Saturated(i, result));
}

template <typename T>
T Integral(T value, Round round) {
  switch (round) {
    case Round::kZero:
      return std::trunc(value);
    case Round::kDown:
      return std::floor(value);
    case Round::kUp:
      return std::ceil(value);
    default:
      return std::nearbyint(value);
  }
}

// Numbers that do not fit give the nearest that does. What is no number gives 0, or the highest bit
// if one of both has 64 bits (PTX ISA).
template <typename From, typename To>
void FloatToInteger(Thread& t, const Instruction& i) {
  const From a = Integral(Flushed(i, t.Operand<From>(i, 1)), i.round);
  To result;
  if (std::isnan(a)) {
    const bool any64 = sizeof(From) == 8 || sizeof(To) == 8;
    result = any64 ? static_cast<To>(uint64_t{1} << (8 * sizeof(To) - 1)) : To{0};
  } else if (a >= std::ldexp(From{1}, std::numeric_limits<To>::digits)) {
    result = std::numeric_limits<To>::max();
  } else if (a < static_cast<From>(std::numeric_limits<To>::min())) {
    result = std::numeric_limits<To>::min();
  } else {
    result = static_cast<To>(a);
  }
  t.Result<To>(i, result);
}

template <typename From, typename To>
void FloatToFloat(Thread& t, const Instruction& i) {
  const From a = Flushed(i, t.Operand<From>(i, 1));
  To result;
  if (i.option == kToIntegral) {
    result = static_cast<To>(Integral(a, i.round));
  } else {
    const Rounding rounding(i.round);
    result = Opaque(static_cast<To>(Opaque(a)));
  }
  t.Result<To>(i, Saturated(i, Flushed(i, result)));
}

template <typename From, typename To>
Handler Between() {
  if constexpr (std::is_floating_point_v<From>) {
    if constexpr (std::is_floating_point_v<To>)
      return FloatToFloat<From, To>;
    else
      return FloatToInteger<From, To>;
  } else {
    if constexpr (std::is_floating_point_v<To>)
      return IntegerToFloat<From, To>;
    else
      return IntegerToInteger<From, To>;
  }
}

template <typename From>
Handler From_(Type to) {
  switch (to) {
    case Type::kU8:
      return Between<From, uint8_t>();
    case Type::kS8:
      return Between<From, int8_t>();
    case Type::kU16:
      return Between<From, uint16_t>();
    case Type::kS16:
      return Between<From, int16_t>();
    case Type::kU32:
      return Between<From, uint32_t>();
    case Type::kS32:
      return Between<From, int32_t>();
    case Type::kU64:
      return Between<From, uint64_t>();
    case Type::kS64:
      return Between<From, int64_t>();
    case Type::kF32:
      return Between<From, float>();
    case Type::kF64:
      return Between<From, double>();
    default:
      return nullptr;
  }
}

Handler Conversion(Type from, Type to) {
  switch (from) {
    case Type::kU8:
      return From_<uint8_t>(to);
    case Type::kS8:
      return From_<int8_t>(to);
    case Type::kU16:
      return From_<uint16_t>(to);
    case Type::kS16:
      return From_<int16_t>(to);
    case Type::kU32:
      return From_<uint32_t>(to);
    case Type::kS32:
      return From_<int32_t>(to);
    case Type::kU64:
      return From_<uint64_t>(to);
    case Type::kS64:
      return From_<int64_t>(to);
    case Type::kF32:
      return From_<float>(to);
    case Type::kF64:
      return From_<double>(to);
    default:
      return nullptr;
  }
}

std::optional<Round> TakeIntegral(Opcode& opcode) {
  if (opcode.Take("rni")) return Round::kNearest;
  if (opcode.Take("rzi")) return Round::kZero;
  if (opcode.Take("rmi")) return Round::kDown;
  if (opcode.Take("rpi")) return Round::kUp;
  return std::nullopt;
}

bool IsFloat(Type type) { return type == Type::kF32 || type == Type::kF64; }

// The offset of an address's space is added (to generic), or taken away.
void AddBase(Thread& t, const Instruction& i) {
  t.Result<uint64_t>(i, t.Operand<uint64_t>(i, 1) + static_cast<uint64_t>(i.offset));
}

Decoded DecodeAddress(Opcode& opcode, Instruction& instruction) {
  const bool to_space = opcode.Take("to");
  uint64_t base = 0;  // of global and constant memory the addresses are generic
  if (opcode.Take("local")) {
    base = kLocalBase;
  } else if (opcode.Take("shared")) {
    base = kSharedBase;
  } else if (!opcode.Take("global") && !opcode.Take("const")) {
    return {};
  }
  if (opcode.TakeType() != Type::kU64) return {};
  instruction.offset = static_cast<int64_t>(to_space ? 0 - base : base);
  return {AddBase, "ds"};
}

}  // namespace

Decoded DecodeConvert(Opcode& opcode, Instruction& instruction) {
  if (opcode.base() == "cvta") return DecodeAddress(opcode, instruction);
  if (opcode.base() != "cvt") return {};
  const std::optional<Type> to = opcode.TakeType(), from = opcode.TakeType();
  if (!to || !from) return {};
  const std::optional<Round> round = opcode.TakeRound(), integral = TakeIntegral(opcode);
  instruction.round = integral.value_or(round.value_or(Round::kNearest));
  instruction.option = integral ? kToIntegral : 0;
  instruction.saturate = opcode.Take("sat");
  instruction.flush = (*from == Type::kF32 || *to == Type::kF32) && opcode.Take("ftz");
  // What PTX demands: how to round wherever that is necessary, and nowhere else.
  const bool is_narrower = IsFloat(*from) && IsFloat(*to) && SizeOf(*to) < SizeOf(*from);
  const bool needs_round = is_narrower || (IsFloat(*to) && !IsFloat(*from));
  const bool needs_integral = IsFloat(*from) && !IsFloat(*to);
  const bool may_integral = needs_integral || (IsFloat(*from) && *from == *to);
  if (needs_round != round.has_value()) return {};
  if ((needs_integral && !integral) || (integral && !may_integral)) return {};
  return {Conversion(*from, *to), "ds"};
}

}  // namespace carafe::vgpu::ptx
