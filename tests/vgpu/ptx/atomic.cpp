// atom and red: one thread runs at a time, so each is a load and a store.
#include "tests/vgpu/ptx/decode.h"
#include "tests/vgpu/ptx/thread.h"

namespace carafe::vgpu::ptx {
namespace {

struct Add {
  template <typename T>
  static T Of(T old, T b, T) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<uint64_t>(old) + static_cast<uint64_t>(b));
    } else {
      return old + b;
    }
  }
};
struct Minimum {
  template <typename T>
  static T Of(T old, T b, T) {
    return b < old ? b : old;
  }
};
struct Maximum {
  template <typename T>
  static T Of(T old, T b, T) {
    return old < b ? b : old;
  }
};
struct And {
  template <typename T>
  static T Of(T old, T b, T) {
    return old & b;
  }
};
struct Or {
  template <typename T>
  static T Of(T old, T b, T) {
    return old | b;
  }
};
struct Xor {
  template <typename T>
  static T Of(T old, T b, T) {
    return old ^ b;
  }
};
struct Exchange {
  template <typename T>
  static T Of(T, T b, T) {
    return b;
  }
};
struct CompareAndSwap {
  template <typename T>
  static T Of(T old, T b, T c) {
    return old == b ? c : old;
  }
};

constexpr uint8_t kReturns = 1, kCompares = 2;

// slot[0]: the address; [the register for the old value;] b; [c]
template <typename T, typename F>
void Atomic(Thread& t, const Instruction& i) {
  const uint64_t address = t.Operand<uint64_t>(i, 0) + static_cast<uint64_t>(i.offset);
  std::byte* memory = Resolve(t, i, address, sizeof(T), sizeof(T), true);
  const int b = (i.option & kReturns) != 0 ? 2 : 1;
  T old;
  std::memcpy(&old, memory, sizeof old);
  const T c = (i.option & kCompares) != 0 ? t.Operand<T>(i, b + 1) : T{};
  const T next = F::template Of<T>(old, t.Operand<T>(i, b), c);
  std::memcpy(memory, &next, sizeof next);
  if ((i.option & kReturns) != 0) t.Set<T>(i.slot[1], old);
}

template <typename F>
Handler BitsOf(Type type) {
  if (type == Type::kB32) return Atomic<uint32_t, F>;
  return type == Type::kB64 ? Atomic<uint64_t, F> : nullptr;
}
template <typename F>
Handler IntegerOf(Type type) {
  switch (type) {
    case Type::kU32:
      return Atomic<uint32_t, F>;
    case Type::kS32:
      return Atomic<int32_t, F>;
    case Type::kU64:
      return Atomic<uint64_t, F>;
    case Type::kS64:
      return Atomic<int64_t, F>;
    default:
      return nullptr;
  }
}
Handler AddOf(Type type) {
  if (type == Type::kF32) return Atomic<float, Add>;
  return type == Type::kF64 ? Atomic<double, Add> : IntegerOf<Add>(type);
}

Handler Operation(Opcode& opcode, Type type) {
  if (opcode.Take("add")) return AddOf(type);
  if (opcode.Take("min")) return IntegerOf<Minimum>(type);
  if (opcode.Take("max")) return IntegerOf<Maximum>(type);
  if (opcode.Take("and")) return BitsOf<And>(type);
  if (opcode.Take("or")) return BitsOf<Or>(type);
  if (opcode.Take("xor")) return BitsOf<Xor>(type);
  return nullptr;
}

}  // namespace

Decoded DecodeAtomic(Opcode& opcode, Instruction& instruction) {
  const bool returns = opcode.base() == "atom";
  if (!returns && opcode.base() != "red") return {};
  for (const char* part : {"relaxed", "acquire", "release", "acq_rel", "cta", "gpu", "sys"})
    opcode.Take(part);
  instruction.space = TakeSpace(opcode);
  instruction.option = returns ? kReturns : 0;
  const std::optional<Type> type = opcode.TakeType();
  if (!type || instruction.space == Space::kParam || instruction.space == Space::kLocal) return {};
  if (returns && opcode.Take("exch")) return {BitsOf<Exchange>(*type), "das"};
  if (returns && opcode.Take("cas")) {
    instruction.option |= kCompares;
    return {BitsOf<CompareAndSwap>(*type), "dass"};
  }
  return {Operation(opcode, *type), returns ? "das" : "as"};
}

}  // namespace carafe::vgpu::ptx
