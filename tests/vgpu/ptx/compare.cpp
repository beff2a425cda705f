// Comparisons and choices: setp selp.
#include <array>
#include <cmath>

#include "tests/vgpu/ptx/decode.h"
#include "tests/vgpu/ptx/rounding.h"
#include "tests/vgpu/ptx/thread.h"

namespace carafe::vgpu::ptx {
namespace {

struct Equal {
  template <typename T>
  static bool Of(T a, T b) {
    return a == b;
  }
};
struct NotEqual {  // false for what is no number, as all but those of Or
  template <typename T>
  static bool Of(T a, T b) {
    return a < b || b < a;
  }
};
struct Less {
  template <typename T>
  static bool Of(T a, T b) {
    return a < b;
  }
};
struct LessEqual {
  template <typename T>
  static bool Of(T a, T b) {
    return a <= b;
  }
};
struct Greater {
  template <typename T>
  static bool Of(T a, T b) {
    return a > b;
  }
};
struct GreaterEqual {
  template <typename T>
  static bool Of(T a, T b) {
    return a >= b;
  }
};
struct Numbers {
  template <typename T>
  static bool Of(T a, T b) {
    return a == a && b == b;
  }
};
struct NoNumber {
  template <typename T>
  static bool Of(T a, T b) {
    return !Numbers::Of(a, b);
  }
};
template <typename F>
struct OrNoNumber {
  template <typename T>
  static bool Of(T a, T b) {
    return F::Of(a, b) || NoNumber::Of(a, b);
  }
};

enum Combine : uint8_t { kAlone, kAnd, kOr, kXor };

bool Combined(uint8_t how, bool result, bool with) {
  switch (static_cast<Combine>(how)) {
    case kAnd:
      return result && with;
    case kOr:
      return result || with;
    case kXor:
      return result != with;
    default:
      return result;
  }
}

// p|q = a ? b [.. c]
template <typename T, typename F>
void SetPredicate(Thread& t, const Instruction& i) {
  T a = t.Operand<T>(i, 2), b = t.Operand<T>(i, 3);
  if constexpr (std::is_floating_point_v<T>) {
    a = Flushed(i, a);
    b = Flushed(i, b);
  }
  const bool result = F::template Of<T>(a, b);
  const bool with = i.option != kAlone && t.Operand<uint64_t>(i, 4) != 0;
  t.Set<uint64_t>(i.slot[0], Combined(i.option, result, with) ? 1 : 0);
  t.Set<uint64_t>(i.slot[1], Combined(i.option, !result, with) ? 1 : 0);
}

template <typename F>
Handler IntegerOf(Type type, bool is_order) {
  switch (type) {
    case Type::kB16:
      return is_order ? nullptr : SetPredicate<uint16_t, F>;
    case Type::kB32:
      return is_order ? nullptr : SetPredicate<uint32_t, F>;
    case Type::kB64:
      return is_order ? nullptr : SetPredicate<uint64_t, F>;
    case Type::kU16:
      return SetPredicate<uint16_t, F>;
    case Type::kS16:
      return SetPredicate<int16_t, F>;
    case Type::kU32:
      return SetPredicate<uint32_t, F>;
    case Type::kS32:
      return SetPredicate<int32_t, F>;
    case Type::kU64:
      return SetPredicate<uint64_t, F>;
    case Type::kS64:
      return SetPredicate<int64_t, F>;
    default:
      return nullptr;
  }
}
template <typename F>
Handler UnsignedOf(Type type) {
  const bool is_unsigned = type == Type::kU16 || type == Type::kU32 || type == Type::kU64;
  return is_unsigned ? IntegerOf<F>(type, true) : nullptr;
}
template <typename F>
Handler FloatOf(Type type) {
  if (type == Type::kF32) return SetPredicate<float, F>;
  if (type == Type::kF64) return SetPredicate<double, F>;
  return nullptr;
}
template <typename F>
Handler AnyOf(Type type, bool is_order) {
  const Handler handler = FloatOf<F>(type);
  return handler != nullptr ? handler : IntegerOf<F>(type, is_order);
}

Handler Comparison(Opcode& opcode, Type type) {
  if (opcode.Take("eq")) return AnyOf<Equal>(type, false);
  if (opcode.Take("ne")) return AnyOf<NotEqual>(type, false);
  if (opcode.Take("lt")) return AnyOf<Less>(type, true);
  if (opcode.Take("le")) return AnyOf<LessEqual>(type, true);
  if (opcode.Take("gt")) return AnyOf<Greater>(type, true);
  if (opcode.Take("ge")) return AnyOf<GreaterEqual>(type, true);
  if (opcode.Take("lo")) return UnsignedOf<Less>(type);
  if (opcode.Take("ls")) return UnsignedOf<LessEqual>(type);
  if (opcode.Take("hi")) return UnsignedOf<Greater>(type);
  if (opcode.Take("hs")) return UnsignedOf<GreaterEqual>(type);
  if (opcode.Take("equ")) return FloatOf<OrNoNumber<Equal>>(type);
  if (opcode.Take("neu")) return FloatOf<OrNoNumber<NotEqual>>(type);
  if (opcode.Take("ltu")) return FloatOf<OrNoNumber<Less>>(type);
  if (opcode.Take("leu")) return FloatOf<OrNoNumber<LessEqual>>(type);
  if (opcode.Take("gtu")) return FloatOf<OrNoNumber<Greater>>(type);
  if (opcode.Take("geu")) return FloatOf<OrNoNumber<GreaterEqual>>(type);
  if (opcode.Take("num")) return FloatOf<Numbers>(type);
  if (opcode.Take("nan")) return FloatOf<NoNumber>(type);
  return nullptr;
}

void Select(Thread& t, const Instruction& i) {
  t.Result<uint64_t>(
      i, t.Operand<uint64_t>(i, 3) != 0 ? t.Operand<uint64_t>(i, 1) : t.Operand<uint64_t>(i, 2));
}

}  // namespace

Decoded DecodeCompare(Opcode& opcode, Instruction& instruction) {
  const std::optional<Type> type = opcode.TakeType();
  if (!type) return {};
  if (opcode.base() == "selp") return {*type == Type::kPred ? nullptr : Select, "dsss"};
  if (opcode.base() != "setp") return {};
  instruction.flush = *type == Type::kF32 && opcode.Take("ftz");
  instruction.option = opcode.Take("and")   ? kAnd
                       : opcode.Take("or")  ? kOr
                       : opcode.Take("xor") ? kXor
                                            : kAlone;
  return {Comparison(opcode, *type), instruction.option == kAlone ? "qss" : "qsss"};
}

}  // namespace carafe::vgpu::ptx
