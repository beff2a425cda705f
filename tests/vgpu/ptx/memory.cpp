// ld and st, and what an address may refer to.
#include <fmt/format.h>

#include "tests/vgpu/ptx/decode.h"
#include "tests/vgpu/ptx/thread.h"

namespace carafe::vgpu::ptx {
namespace {

bool LiesIn(const Variable& variable, uint64_t offset, size_t bytes) {
  return offset >= variable.offset && offset + bytes <= variable.offset + variable.bytes &&
         offset + bytes >= offset;
}

std::byte* InParams(Thread& t, const Instruction& by, uint64_t offset, size_t bytes, bool writes) {
  Frame& frame = t.frame();
  const Function& function = *frame.function;
  for (size_t i = 0; i < function.params.size(); ++i) {
    if (!LiesIn(function.params[i], offset, bytes)) continue;
    if (writes && i < function.num_params) Fail(t, by, "a function's parameter is written");
    return frame.params.data() + offset;
  }
  Fail(t, by, fmt::format("{} bytes from {} on lie in no parameter", bytes, offset));
}

std::byte* InBytes(Thread& t, const Instruction& by, std::vector<std::byte>& memory,
                   const char* name, uint64_t address, size_t bytes) {
  const uint64_t offset = address - kFirstOffset;
  if (address >= kFirstOffset && offset <= memory.size() && bytes <= memory.size() - offset) {
    return memory.data() + offset;
  }
  Fail(t, by,
       fmt::format("{} bytes at address {} do not lie in the {} bytes of {} memory", bytes, address,
                   memory.size(), name));
}

std::byte* InModule(Thread& t, const Instruction& by, uint64_t address, size_t bytes) {
  Module& module = *t.block->module;
  for (const Variable& variable : module.variables) {
    if (LiesIn(variable, address - kModuleBase, bytes))
      return module.memory.data() + (address - kModuleBase);
  }
  Fail(t, by,
       fmt::format("{} bytes at address {:#x} lie in no variable of the module", bytes, address));
}

std::byte* InGeneric(Thread& t, const Instruction& by, uint64_t address, size_t bytes,
                     bool only_global) {
  const uint64_t window = address >> 48;
  if (window == kModuleBase >> 48) return InModule(t, by, address, bytes);
  if (!only_global && window == kLocalBase >> 48)
    return InBytes(t, by, t.local, "local", address - kLocalBase, bytes);
  if (!only_global && window == kSharedBase >> 48) {
    return InBytes(t, by, t.block->shared, "shared", address - kSharedBase, bytes);
  }
  t.block->global->Check(address, bytes, by);
  return reinterpret_cast<std::byte*>(address);
}

uint64_t AddressOf(const Thread& t, const Instruction& i) {
  return t.Operand<uint64_t>(i, 0) + static_cast<uint64_t>(i.offset);
}

// slot[0]: the address; then as many registers as the instruction has.
template <typename T>
void Load(Thread& t, const Instruction& i) {
  const size_t n = i.count - size_t{1};
  const std::byte* from = Resolve(t, i, AddressOf(t, i), n * sizeof(T), n * sizeof(T), false);
  for (size_t k = 0; k < n; ++k) {
    T value;
    std::memcpy(&value, from + k * sizeof(T), sizeof(T));
    t.Set<T>(i.slot[k + 1], value);
  }
}
template <typename T>
void Store(Thread& t, const Instruction& i) {
  const size_t n = i.count - size_t{1};
  std::byte* to = Resolve(t, i, AddressOf(t, i), n * sizeof(T), n * sizeof(T), true);
  for (size_t k = 0; k < n; ++k) {
    const T value = t.Get<T>(i.slot[k + 1]);
    std::memcpy(to + k * sizeof(T), &value, sizeof(T));
  }
}

Handler LoadOf(Type type) {
  switch (type) {
    case Type::kB8:
    case Type::kU8:
      return Load<uint8_t>;
    case Type::kS8:
      return Load<int8_t>;
    case Type::kB16:
    case Type::kU16:
      return Load<uint16_t>;
    case Type::kS16:
      return Load<int16_t>;
    case Type::kS32:
      return Load<int32_t>;
    case Type::kB32:
    case Type::kU32:
    case Type::kF32:
      return Load<uint32_t>;
    case Type::kB64:
    case Type::kU64:
    case Type::kS64:
    case Type::kF64:
      return Load<uint64_t>;
    default:
      return nullptr;
  }
}
Handler StoreOf(Type type) {
  if (type == Type::kPred) return nullptr;
  switch (SizeOf(type)) {
    case 1:
      return Store<uint8_t>;
    case 2:
      return Store<uint16_t>;
    case 4:
      return Store<uint32_t>;
    default:
      return Store<uint64_t>;
  }
}

}  // namespace

std::byte* Resolve(Thread& t, const Instruction& by, uint64_t address, size_t bytes, size_t align,
                   bool writes) {
  if (address % align != 0) {
    Fail(t, by, fmt::format("address {:#x} is no multiple of {}", address, align));
  }
  switch (by.space) {
    case Space::kParam:
      return InParams(t, by, address, bytes, writes);
    case Space::kLocal:
      return InBytes(t, by, t.local, "local", address, bytes);
    case Space::kShared:
      return InBytes(t, by, t.block->shared, "shared", address, bytes);
    case Space::kConst:
      if (writes) Fail(t, by, "constant memory is written");
      return InModule(t, by, address, bytes);
    case Space::kGlobal:
      return InGeneric(t, by, address, bytes, true);
    default:
      return InGeneric(t, by, address, bytes, false);
  }
}

Space TakeSpace(Opcode& opcode) {
  if (opcode.Take("global")) return Space::kGlobal;
  if (opcode.Take("shared") || opcode.Take("shared::cta")) return Space::kShared;
  if (opcode.Take("local")) return Space::kLocal;
  if (opcode.Take("param") || opcode.Take("param::entry") || opcode.Take("param::func"))
    return Space::kParam;
  if (opcode.Take("const")) return Space::kConst;
  return Space::kGeneric;
}

Decoded DecodeMemory(Opcode& opcode, Instruction& instruction) {
  const bool loads = opcode.base() == "ld";
  if (!loads && opcode.base() != "st") return {};
  instruction.space = TakeSpace(opcode);
  // Caches and the order between threads: one thread runs at a time, and there is no cache.
  for (const char* part : {"volatile", "weak", "nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt"})
    opcode.Take(part);
  const size_t width = opcode.Take("v2") ? 2 : opcode.Take("v4") ? 4 : 0;
  const Braces braces = opcode.braces();
  const std::optional<Type> type = opcode.TakeType();
  if (!type || (loads ? braces.first : braces.second) != width) return {};
  return loads ? Decoded{LoadOf(*type), "Da"} : Decoded{StoreOf(*type), "aS"};
}

}  // namespace carafe::vgpu::ptx
