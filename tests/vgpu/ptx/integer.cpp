// Arithmetic of integers: add sub mul mad div rem abs neg min max.
#include <limits>
#include <type_traits>

#include "tests/vgpu/ptx/decode.h"
#include "tests/vgpu/ptx/thread.h"

namespace carafe::vgpu::ptx {
namespace {

template <typename T>
struct Wide {
  using Product = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
};

template <typename T>
T Low(typename Wide<T>::Product value) {
  return static_cast<T>(static_cast<std::make_unsigned_t<T>>(value));
}
template <typename T>
T High(typename Wide<T>::Product value) {
  return Low<T>(value >> (8 * sizeof(T)));
}
// Sums of two numbers of at most 64 bits fit; products of 64-bit numbers do, too.
template <typename T>
typename Wide<T>::Product Of(T value) {
  return value;
}

struct Add {
  template <typename T>
  static T Of(Thread&, const Instruction&, T a, T b) {
    return Low<T>(ptx::Of(a) + b);
  }
};
struct Subtract {
  template <typename T>
  static T Of(Thread&, const Instruction&, T a, T b) {
    return Low<T>(ptx::Of(a) - b);
  }
};
struct MultiplyLow {
  template <typename T>
  static T Of(Thread&, const Instruction&, T a, T b) {
    return Low<T>(ptx::Of(a) * b);
  }
};
struct MultiplyHigh {
  template <typename T>
  static T Of(Thread&, const Instruction&, T a, T b) {
    return High<T>(ptx::Of(a) * b);
  }
};
// A GPU gives some number; no kernel of ours wants it.
struct Divide {
  template <typename T>
  static T Of(Thread& t, const Instruction& i, T a, T b) {
    if (b == 0) Fail(t, i, "an integer is divided by zero");
    return Low<T>(ptx::Of(a) / b);
  }
};
struct Remainder {
  template <typename T>
  static T Of(Thread& t, const Instruction& i, T a, T b) {
    if (b == 0) Fail(t, i, "an integer is divided by zero");
    return Low<T>(ptx::Of(a) % b);
  }
};
struct Minimum {
  template <typename T>
  static T Of(Thread&, const Instruction&, T a, T b) {
    return b < a ? b : a;
  }
};
struct Maximum {
  template <typename T>
  static T Of(Thread&, const Instruction&, T a, T b) {
    return a < b ? b : a;
  }
};

template <typename T, typename F>
void Binary(Thread& t, const Instruction& i) {
  t.Result<T>(i, F::template Of<T>(t, i, t.Operand<T>(i, 1), t.Operand<T>(i, 2)));
}
template <typename T, typename F>  // d = f(a, b) + c
void BinaryAdd(Thread& t, const Instruction& i) {
  const T product = F::template Of<T>(t, i, t.Operand<T>(i, 1), t.Operand<T>(i, 2));
  t.Result<T>(i, Low<T>(Of(product) + t.Operand<T>(i, 3)));
}
// The product has twice the bits.
template <typename T, typename Product, bool add>
void MultiplyWide(Thread& t, const Instruction& i) {
  Product product = Low<Product>(Of<Product>(t.Operand<T>(i, 1)) * t.Operand<T>(i, 2));
  if (add) product = Low<Product>(Of(product) + t.Operand<Product>(i, 3));
  t.Result<Product>(i, product);
}
template <typename T>
void Negate(Thread& t, const Instruction& i) {
  t.Result<T>(i, Low<T>(-Of(t.Operand<T>(i, 1))));
}
template <typename T>
void Absolute(Thread& t, const Instruction& i) {
  const T a = t.Operand<T>(i, 1);
  t.Result<T>(i, a < 0 ? Low<T>(-Of(a)) : a);
}

template <typename F>
Handler BinaryOf(Type type) {
  switch (type) {
    case Type::kS16:
      return Binary<int16_t, F>;
    case Type::kU16:
      return Binary<uint16_t, F>;
    case Type::kS32:
      return Binary<int32_t, F>;
    case Type::kU32:
      return Binary<uint32_t, F>;
    case Type::kS64:
      return Binary<int64_t, F>;
    case Type::kU64:
      return Binary<uint64_t, F>;
    default:
      return nullptr;
  }
}
template <typename F>
Handler BinaryAddOf(Type type) {
  switch (type) {
    case Type::kS16:
      return BinaryAdd<int16_t, F>;
    case Type::kU16:
      return BinaryAdd<uint16_t, F>;
    case Type::kS32:
      return BinaryAdd<int32_t, F>;
    case Type::kU32:
      return BinaryAdd<uint32_t, F>;
    case Type::kS64:
      return BinaryAdd<int64_t, F>;
    case Type::kU64:
      return BinaryAdd<uint64_t, F>;
    default:
      return nullptr;
  }
}
template <bool add>
Handler WideOf(Type type) {
  switch (type) {
    case Type::kS16:
      return MultiplyWide<int16_t, int32_t, add>;
    case Type::kU16:
      return MultiplyWide<uint16_t, uint32_t, add>;
    case Type::kS32:
      return MultiplyWide<int32_t, int64_t, add>;
    case Type::kU32:
      return MultiplyWide<uint32_t, uint64_t, add>;
    default:
      return nullptr;
  }
}
Handler NegateOf(Type type) {
  switch (type) {
    case Type::kS16:
      return Negate<int16_t>;
    case Type::kS32:
      return Negate<int32_t>;
    case Type::kS64:
      return Negate<int64_t>;
    default:
      return nullptr;
  }
}
Handler AbsoluteOf(Type type) {
  switch (type) {
    case Type::kS16:
      return Absolute<int16_t>;
    case Type::kS32:
      return Absolute<int32_t>;
    case Type::kS64:
      return Absolute<int64_t>;
    default:
      return nullptr;
  }
}

}  // namespace

Decoded DecodeInteger(Opcode& opcode, Instruction&) {
  const std::optional<Type> type = opcode.TakeType();
  if (!type) return {};
  const std::string_view base = opcode.base();
  if (base == "add") return {BinaryOf<Add>(*type), "dss"};
  if (base == "sub") return {BinaryOf<Subtract>(*type), "dss"};
  if (base == "div") return {BinaryOf<Divide>(*type), "dss"};
  if (base == "rem") return {BinaryOf<Remainder>(*type), "dss"};
  if (base == "min") return {BinaryOf<Minimum>(*type), "dss"};
  if (base == "max") return {BinaryOf<Maximum>(*type), "dss"};
  if (base == "neg") return {NegateOf(*type), "ds"};
  if (base == "abs") return {AbsoluteOf(*type), "ds"};
  if (base == "mul") {
    if (opcode.Take("lo")) return {BinaryOf<MultiplyLow>(*type), "dss"};
    if (opcode.Take("hi")) return {BinaryOf<MultiplyHigh>(*type), "dss"};
    if (opcode.Take("wide")) return {WideOf<false>(*type), "dss"};
  }
  if (base == "mad") {
    if (opcode.Take("lo")) return {BinaryAddOf<MultiplyLow>(*type), "dsss"};
    if (opcode.Take("hi")) return {BinaryAddOf<MultiplyHigh>(*type), "dsss"};
    if (opcode.Take("wide")) return {WideOf<true>(*type), "dsss"};
  }
  return {};
}

}  // namespace carafe::vgpu::ptx
