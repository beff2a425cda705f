// Bits: and or xor not shl shr shf popc clz brev bfe prmt lop3.
#include <bit>

#include "tests/vgpu/ptx/decode.h"
#include "tests/vgpu/ptx/thread.h"

namespace carafe::vgpu::ptx {
namespace {

struct And {
  template <typename T>
  static T Of(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <typename T>
  static T Of(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <typename T>
  static T Of(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

template <typename T, typename F>
void Binary(Thread& t, const Instruction& i) {
  t.Result<T>(i, F::template Of<T>(t.Operand<T>(i, 1), t.Operand<T>(i, 2)));
}
template <typename T>
void Not(Thread& t, const Instruction& i) {
  t.Result<T>(i, static_cast<T>(~t.Operand<T>(i, 1)));
}
void NotPredicate(Thread& t, const Instruction& i) {
  t.Result<uint64_t>(i, t.Operand<uint64_t>(i, 1) == 0 ? 1 : 0);
}

// Shifts by as many bits as there are, or more, leave nothing, or the sign.
template <typename T>
void ShiftLeft(Thread& t, const Instruction& i) {
  const uint32_t by = t.Operand<uint32_t>(i, 2);
  t.Result<T>(i, by >= 8 * sizeof(T)
                     ? T{0}
                     : static_cast<T>(static_cast<uint64_t>(t.Operand<T>(i, 1)) << by));
}
template <typename T>
void ShiftRight(Thread& t, const Instruction& i) {
  const uint32_t by = t.Operand<uint32_t>(i, 2);
  const T a = t.Operand<T>(i, 1);
  const T all = a < 0 ? static_cast<T>(-1) : T{0};
  t.Result<T>(i, by >= 8 * sizeof(T) ? all : static_cast<T>(a >> by));
}

constexpr uint8_t kRight = 1, kWrap = 2;

// Of the 64 bits b:a, shifted, the upper (left) or lower (right) half.
void FunnelShift(Thread& t, const Instruction& i) {
  const uint64_t both = uint64_t{t.Operand<uint32_t>(i, 2)} << 32 | t.Operand<uint32_t>(i, 1);
  uint32_t by = t.Operand<uint32_t>(i, 3);
  by = (i.option & kWrap) != 0 ? by % 32 : by > 32 ? 32 : by;
  t.Result<uint32_t>(
      i, static_cast<uint32_t>((i.option & kRight) != 0 ? both >> by : (both << by) >> 32));
}

template <typename T>
void CountOnes(Thread& t, const Instruction& i) {
  t.Result<uint32_t>(i, static_cast<uint32_t>(std::popcount(t.Operand<T>(i, 1))));
}
template <typename T>
void LeadingZeros(Thread& t, const Instruction& i) {
  t.Result<uint32_t>(i, static_cast<uint32_t>(std::countl_zero(t.Operand<T>(i, 1))));
}
template <typename T>
void Reverse(Thread& t, const Instruction& i) {
  T result = 0;
  const T a = t.Operand<T>(i, 1);
  for (size_t bit = 0; bit < 8 * sizeof(T); ++bit)
    result |= (a >> bit & 1) << (8 * sizeof(T) - 1 - bit);
  t.Result<T>(i, result);
}

// `length` bits of a from `position` on; those of a signed number are extended by their highest.
template <typename T>
void Extract(Thread& t, const Instruction& i) {
  constexpr uint32_t kBits = 8 * sizeof(T);
  const T a = t.Operand<T>(i, 1);
  const uint32_t position = t.Operand<uint32_t>(i, 2) & 255,
                 length = t.Operand<uint32_t>(i, 3) & 255;
  const auto bit = [&](uint32_t n) {
    return static_cast<uint64_t>(a) >> (n < kBits ? n : kBits - 1) & 1;
  };
  uint64_t result = 0;
  const uint32_t last = position + (length == 0 ? 0 : length - 1);
  const uint64_t sign = std::is_signed_v<T> && length > 0 ? bit(last) : 0;
  for (uint32_t n = 0; n < kBits; ++n) {
    const bool inside = n < length && position + n < kBits;
    result |= (inside ? bit(position + n) : sign) << n;
  }
  t.Result<T>(i, static_cast<T>(result));
}

// Four bytes of b:a, chosen by the nibbles of c; a nibble's highest bit asks for the byte's sign.
void Permute(Thread& t, const Instruction& i) {
  const uint64_t both = uint64_t{t.Operand<uint32_t>(i, 2)} << 32 | t.Operand<uint32_t>(i, 1);
  const uint32_t select = t.Operand<uint32_t>(i, 3);
  uint32_t result = 0;
  for (unsigned n = 0; n < 4; ++n) {
    const uint32_t nibble = select >> (4 * n) & 15;
    uint32_t byte = static_cast<uint32_t>(both >> (8 * (nibble & 7))) & 255;
    if (nibble & 8) byte = (byte & 128) != 0 ? 255 : 0;
    result |= byte << (8 * n);
  }
  t.Result<uint32_t>(i, result);
}

// Each bit by a table of 8 entries: d = table[4 a + 2 b + c].
void Lookup3(Thread& t, const Instruction& i) {
  const uint32_t a = t.Operand<uint32_t>(i, 1), b = t.Operand<uint32_t>(i, 2),
                 c = t.Operand<uint32_t>(i, 3);
  const uint32_t table = t.Operand<uint32_t>(i, 4);
  uint32_t result = 0;
  for (unsigned n = 0; n < 32; ++n) {
    const uint32_t row = (a >> n & 1) << 2 | (b >> n & 1) << 1 | (c >> n & 1);
    result |= (table >> row & 1) << n;
  }
  t.Result<uint32_t>(i, result);
}

template <typename F>
Handler BinaryOf(Type type) {
  switch (type) {
    case Type::kB16:
      return Binary<uint16_t, F>;
    case Type::kB32:
      return Binary<uint32_t, F>;
    case Type::kB64:
      return Binary<uint64_t, F>;
    case Type::kPred:
      return Binary<uint64_t, F>;  // 0 or 1
    default:
      return nullptr;
  }
}
Handler NotOf(Type type) {
  switch (type) {
    case Type::kB16:
      return Not<uint16_t>;
    case Type::kB32:
      return Not<uint32_t>;
    case Type::kB64:
      return Not<uint64_t>;
    case Type::kPred:
      return NotPredicate;
    default:
      return nullptr;
  }
}
Handler ShiftLeftOf(Type type) {
  switch (type) {
    case Type::kB16:
      return ShiftLeft<uint16_t>;
    case Type::kB32:
      return ShiftLeft<uint32_t>;
    case Type::kB64:
      return ShiftLeft<uint64_t>;
    default:
      return nullptr;
  }
}
Handler ShiftRightOf(Type type) {
  switch (type) {
    case Type::kB16:
    case Type::kU16:
      return ShiftRight<uint16_t>;
    case Type::kS16:
      return ShiftRight<int16_t>;
    case Type::kB32:
    case Type::kU32:
      return ShiftRight<uint32_t>;
    case Type::kS32:
      return ShiftRight<int32_t>;
    case Type::kB64:
    case Type::kU64:
      return ShiftRight<uint64_t>;
    case Type::kS64:
      return ShiftRight<int64_t>;
    default:
      return nullptr;
  }
}
Handler ExtractOf(Type type) {
  switch (type) {
    case Type::kU32:
      return Extract<uint32_t>;
    case Type::kS32:
      return Extract<int32_t>;
    case Type::kU64:
      return Extract<uint64_t>;
    case Type::kS64:
      return Extract<int64_t>;
    default:
      return nullptr;
  }
}

Decoded DecodeFunnelShift(Opcode& opcode, Instruction& instruction, Type type) {
  if (type != Type::kB32) return {};
  const bool right = opcode.Take("r"), wrap = opcode.Take("wrap");
  if ((!right && !opcode.Take("l")) || (!wrap && !opcode.Take("clamp"))) return {};
  instruction.option = static_cast<uint8_t>((right ? kRight : 0) | (wrap ? kWrap : 0));
  return {FunnelShift, "dsss"};
}

}  // namespace

Decoded DecodeBits(Opcode& opcode, Instruction& instruction) {
  const std::optional<Type> type = opcode.TakeType();
  if (!type) return {};
  const std::string_view base = opcode.base();
  const bool is64 = *type == Type::kB64, is_word = is64 || *type == Type::kB32;
  if (base == "and") return {BinaryOf<And>(*type), "dss"};
  if (base == "or") return {BinaryOf<Or>(*type), "dss"};
  if (base == "xor") return {BinaryOf<Xor>(*type), "dss"};
  if (base == "not") return {NotOf(*type), "ds"};
  if (base == "shl") return {ShiftLeftOf(*type), "dss"};
  if (base == "shr") return {ShiftRightOf(*type), "dss"};
  if (base == "bfe") return {ExtractOf(*type), "dsss"};
  if (base == "shf") return DecodeFunnelShift(opcode, instruction, *type);
  if (!is_word) return {};
  if (base == "popc") return {is64 ? CountOnes<uint64_t> : CountOnes<uint32_t>, "ds"};
  if (base == "clz") return {is64 ? LeadingZeros<uint64_t> : LeadingZeros<uint32_t>, "ds"};
  if (base == "brev") return {is64 ? Reverse<uint64_t> : Reverse<uint32_t>, "ds"};
  if (base == "prmt" && !is64) return {Permute, "dsss"};
  if (base == "lop3" && !is64) return {Lookup3, "dssss"};
  return {};
}

}  // namespace carafe::vgpu::ptx
