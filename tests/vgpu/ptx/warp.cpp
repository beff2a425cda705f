#include "tests/vgpu/ptx/warp.h"

#include <fmt/format.h>

#include "tests/vgpu/ptx/decode.h"

namespace carafe::vgpu::ptx {
namespace {

enum Operation : uint8_t {
  kShuffleUp,
  kShuffleDown,
  kShuffleXor,
  kShuffleIndex,
  kVoteAll,
  kVoteAny,
  kVoteEqual,
  kVoteBallot,
  kAddAll,
  kMinSigned,
  kMaxSigned,
  kMinUnsigned,
  kMaxUnsigned,
  kAndAll,
  kOrAll,
  kXorAll,
  kMeet
};

void Wait(Thread& t, const Instruction& i) {
  t.state = State::kAtWarpOperation;
  t.waits_at = &i;
}

// The last operand names the threads that take part.
uint32_t MaskOf(const Thread& t) { return t.Operand<uint32_t>(*t.waits_at, t.waits_at->count - 1); }

// shfl d|p, a, b, c, mask. c: the last lane of a segment, and in bits 8 to 12 which bits of a
// lane's number name it.
void Shuffle(const Warp& warp, uint32_t mask, const Instruction& i) {
  std::array<uint32_t, kWarp> values{}, sources{};
  std::array<bool, kWarp> inside{};
  for (uint32_t lane = 0; lane < kWarp; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const Thread& t = *warp[lane];
    values[lane] = t.Operand<uint32_t>(i, 2);
    const uint32_t b = t.Operand<uint32_t>(i, 3) & 31, c = t.Operand<uint32_t>(i, 4);
    const uint32_t segment = c >> 8 & 31;
    const uint32_t first = lane & segment, last = first | (c & 31 & ~segment);
    int64_t source = 0;
    switch (static_cast<Operation>(i.option)) {
      case kShuffleUp:
        source = int64_t{lane} - b;
        break;
      case kShuffleDown:
        source = int64_t{lane} + b;
        break;
      case kShuffleXor:
        source = lane ^ b;
        break;
      default:
        source = first | (b & ~segment);
        break;
    }
    inside[lane] = i.option == kShuffleUp ? source >= int64_t{last} : source <= int64_t{last};
    sources[lane] = inside[lane] ? static_cast<uint32_t>(source) : lane;
    if ((mask >> sources[lane] & 1) == 0) {
      Fail(t, i,
           fmt::format("lane {} reads lane {}, which takes no part (mask {:#x})", lane,
                       sources[lane], mask));
    }
  }
  for (uint32_t lane = 0; lane < kWarp; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    warp[lane]->Set<uint32_t>(i.slot[0], values[sources[lane]]);
    warp[lane]->Set<uint64_t>(i.slot[1], inside[lane] ? 1 : 0);
  }
}

// vote d, a, mask
uint32_t Vote(const Warp& warp, uint32_t mask, const Instruction& i) {
  uint32_t ballot = 0;
  for (uint32_t lane = 0; lane < kWarp; ++lane) {
    if ((mask >> lane & 1) != 0 && warp[lane]->Operand<uint64_t>(i, 1) != 0)
      ballot |= uint32_t{1} << lane;
  }
  switch (static_cast<Operation>(i.option)) {
    case kVoteAll:
      return ballot == mask ? 1 : 0;
    case kVoteAny:
      return ballot != 0 ? 1 : 0;
    case kVoteEqual:
      return ballot == mask || ballot == 0 ? 1 : 0;
    default:
      return ballot;
  }
}

uint32_t Combine(uint8_t how, uint32_t a, uint32_t b) {
  const auto sa = static_cast<int32_t>(a), sb = static_cast<int32_t>(b);
  switch (static_cast<Operation>(how)) {
    case kAddAll:
      return a + b;
    case kMinSigned:
      return sa < sb ? a : b;
    case kMaxSigned:
      return sa > sb ? a : b;
    case kMinUnsigned:
      return a < b ? a : b;
    case kMaxUnsigned:
      return a > b ? a : b;
    case kAndAll:
      return a & b;
    case kOrAll:
      return a | b;
    default:
      return a ^ b;
  }
}

// redux d, a, mask
uint32_t Reduce(const Warp& warp, uint32_t mask, const Instruction& i) {
  bool first = true;
  uint32_t result = 0;
  for (uint32_t lane = 0; lane < kWarp; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const uint32_t value = warp[lane]->Operand<uint32_t>(i, 1);
    result = first ? value : Combine(i.option, result, value);
    first = false;
  }
  return result;
}

void Perform(const Warp& warp, uint32_t mask, const Instruction& i) {
  if (i.option <= kShuffleIndex) {
    Shuffle(warp, mask, i);
  } else if (i.option != kMeet) {
    const uint32_t result = i.option <= kVoteBallot ? Vote(warp, mask, i) : Reduce(warp, mask, i);
    for (uint32_t lane = 0; lane < kWarp; ++lane) {
      if ((mask >> lane & 1) != 0) warp[lane]->Set<uint32_t>(i.slot[0], result);
    }
  }
  for (uint32_t lane = 0; lane < kWarp; ++lane) {
    if ((mask >> lane & 1) != 0) warp[lane]->state = State::kRunning;
  }
}

bool AllThere(const Warp& warp, uint32_t mask, const Instruction& i) {
  for (uint32_t lane = 0; lane < kWarp; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const Thread* t = warp[lane];
    if (t == nullptr || t->state != State::kAtWarpOperation || t->waits_at != &i ||
        MaskOf(*t) != mask)
      return false;
  }
  return true;
}

Decoded Sync(Instruction& instruction, Operation operation, std::string_view operands) {
  instruction.option = operation;
  return {Wait, operands};
}

Decoded DecodeShuffle(Opcode& opcode, Instruction& i) {
  if (opcode.TakeType() != Type::kB32) return {};
  if (opcode.Take("up")) return Sync(i, kShuffleUp, "qssss");
  if (opcode.Take("down")) return Sync(i, kShuffleDown, "qssss");
  if (opcode.Take("bfly")) return Sync(i, kShuffleXor, "qssss");
  if (opcode.Take("idx")) return Sync(i, kShuffleIndex, "qssss");
  return {};
}

Decoded DecodeVote(Opcode& opcode, Instruction& i) {
  if (opcode.Take("ballot"))
    return opcode.TakeType() == Type::kB32 ? Sync(i, kVoteBallot, "dss") : Decoded{};
  if (opcode.TakeType() != Type::kPred) return {};
  if (opcode.Take("all")) return Sync(i, kVoteAll, "dss");
  if (opcode.Take("any")) return Sync(i, kVoteAny, "dss");
  if (opcode.Take("uni")) return Sync(i, kVoteEqual, "dss");
  return {};
}

Decoded DecodeReduce(Opcode& opcode, Instruction& i) {
  const std::optional<Type> type = opcode.TakeType();
  const bool is_signed = type == Type::kS32, is_unsigned = type == Type::kU32,
             is_bits = type == Type::kB32;
  if ((is_signed || is_unsigned) && opcode.Take("add")) return Sync(i, kAddAll, "dss");
  if ((is_signed || is_unsigned) && opcode.Take("min"))
    return Sync(i, is_signed ? kMinSigned : kMinUnsigned, "dss");
  if ((is_signed || is_unsigned) && opcode.Take("max"))
    return Sync(i, is_signed ? kMaxSigned : kMaxUnsigned, "dss");
  if (is_bits && opcode.Take("and")) return Sync(i, kAndAll, "dss");
  if (is_bits && opcode.Take("or")) return Sync(i, kOrAll, "dss");
  if (is_bits && opcode.Take("xor")) return Sync(i, kXorAll, "dss");
  return {};
}

}  // namespace

bool CompleteWarp(const Warp& warp) {
  bool completed = false;
  for (const Thread* t : warp) {
    if (t == nullptr || t->state != State::kAtWarpOperation) continue;
    const Instruction& i = *t->waits_at;
    const uint32_t mask = MaskOf(*t);
    if ((mask >> (t->index % kWarp) & 1) == 0) {
      Fail(*t, i,
           fmt::format("lane {} is not among those of its mask {:#x}", t->index % kWarp, mask));
    }
    if (!AllThere(warp, mask, i)) continue;
    Perform(warp, mask, i);
    completed = true;
  }
  return completed;
}

Decoded DecodeWarp(Opcode& opcode, Instruction& instruction) {
  const std::string_view base = opcode.base();
  if (base != "shfl" && base != "vote" && base != "redux" && base != "bar") return {};
  if (!opcode.Take("sync")) return {};
  if (base == "shfl") return DecodeShuffle(opcode, instruction);
  if (base == "vote") return DecodeVote(opcode, instruction);
  if (base == "redux") return DecodeReduce(opcode, instruction);
  return opcode.Take("warp") ? Sync(instruction, kMeet, "s") : Decoded{};
}

}  // namespace carafe::vgpu::ptx
