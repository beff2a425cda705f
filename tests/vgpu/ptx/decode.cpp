#include "tests/vgpu/ptx/decode.h"

#include <algorithm>
#include <array>
#include <utility>

namespace carafe::vgpu::ptx {
namespace {

constexpr std::array<std::pair<std::string_view, Type>, 15> kTypes = {{{"b8", Type::kB8},
                                                                       {"u8", Type::kU8},
                                                                       {"s8", Type::kS8},
                                                                       {"b16", Type::kB16},
                                                                       {"u16", Type::kU16},
                                                                       {"s16", Type::kS16},
                                                                       {"b32", Type::kB32},
                                                                       {"u32", Type::kU32},
                                                                       {"s32", Type::kS32},
                                                                       {"b64", Type::kB64},
                                                                       {"u64", Type::kU64},
                                                                       {"s64", Type::kS64},
                                                                       {"f32", Type::kF32},
                                                                       {"f64", Type::kF64},
                                                                       {"pred", Type::kPred}}};

}  // namespace

std::optional<Type> TypeOf(std::string_view name) {
  for (const auto& [text, type] : kTypes) {
    if (text == name) return type;
  }
  return std::nullopt;
}

size_t SizeOf(Type type) {
  switch (type) {
    case Type::kB8:
    case Type::kU8:
    case Type::kS8:
    case Type::kPred:
      return 1;
    case Type::kB16:
    case Type::kU16:
    case Type::kS16:
      return 2;
    case Type::kB32:
    case Type::kU32:
    case Type::kS32:
    case Type::kF32:
      return 4;
    default:
      return 8;
  }
}

Opcode::Opcode(std::string_view text, size_t num_operands, Braces braces)
    : num_operands_(num_operands), braces_(braces) {
  const size_t dot = text.find('.');
  base_ = text.substr(0, dot);
  while (!text.empty() && text.find('.') != std::string_view::npos) {
    text.remove_prefix(text.find('.') + 1);
    parts_.push_back(text.substr(0, text.find('.')));
  }
}

bool Opcode::Take(std::string_view part) {
  const auto found = std::ranges::find(parts_, part);
  if (found == parts_.end()) return false;
  parts_.erase(found);
  return true;
}

std::optional<Type> Opcode::TakeType() {
  for (auto part = parts_.begin(); part != parts_.end(); ++part) {
    const std::optional<Type> type = TypeOf(*part);
    if (!type) continue;
    parts_.erase(part);
    return type;
  }
  return std::nullopt;
}

std::optional<Round> Opcode::TakeRound() {
  if (Take("rn")) return Round::kNearest;
  if (Take("rz")) return Round::kZero;
  if (Take("rm")) return Round::kDown;
  if (Take("rp")) return Round::kUp;
  return std::nullopt;
}

Decoded Decode(Opcode opcode, Instruction& instruction) {
  constexpr std::array kFamilies = {DecodeInteger, DecodeBits,    DecodeFloat, DecodeApproximate,
                                    DecodeCompare, DecodeConvert, DecodeMove,  DecodeMemory,
                                    DecodeAtomic,  DecodeControl, DecodeWarp};
  for (const auto family : kFamilies) {
    Opcode left = opcode;
    Instruction filled = instruction;
    const Decoded decoded = family(left, filled);
    if (decoded.run == nullptr || !left.empty()) continue;
    instruction = filled;
    return decoded;
  }
  return {};
}

}  // namespace carafe::vgpu::ptx
