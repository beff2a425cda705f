// mov: between registers, of immediates and addresses, and between one register and the parts of
// it.
#include "tests/vgpu/ptx/decode.h"
#include "tests/vgpu/ptx/thread.h"

namespace carafe::vgpu::ptx {
namespace {

template <typename T>
void Copy(Thread& t, const Instruction& i) {
  t.Result<T>(i, t.Operand<T>(i, 1));
}
void CopyPredicate(Thread& t, const Instruction& i) {
  t.Result<uint64_t>(i, t.Operand<uint64_t>(i, 1) != 0 ? 1 : 0);
}

// d = {a, b}, the lowest bits first.
template <typename Whole, typename Part>
void Join(Thread& t, const Instruction& i) {
  Whole whole = 0;
  for (int part = 0; part < i.count - 1; ++part) {
    whole |= static_cast<Whole>(static_cast<Whole>(t.Operand<Part>(i, part + 1))
                                << (8 * sizeof(Part) * static_cast<size_t>(part)));
  }
  t.Result<Whole>(i, whole);
}
template <typename Whole, typename Part>
void Split(Thread& t, const Instruction& i) {
  const Whole whole = t.Operand<Whole>(i, i.count - 1);
  for (int part = 0; part < i.count - 1; ++part) {
    t.Set<Part>(i.slot[static_cast<size_t>(part)],
                static_cast<Part>(whole >> (8 * sizeof(Part) * static_cast<size_t>(part))));
  }
}

}  // namespace

Decoded DecodeMove(Opcode& opcode, Instruction&) {
  if (opcode.base() != "mov") return {};
  const std::optional<Type> type = opcode.TakeType();
  if (!type) return {};
  const Braces braces = opcode.braces();
  if (braces.first > 0 || braces.second > 0) {
    const bool split = braces.first > 0;
    const size_t parts = split ? braces.first : braces.second;
    if ((split && braces.second > 0) || (parts != 2 && parts != 4)) return {};
    const char* operands = split ? "Ds" : "dS";
    if (*type == Type::kB64 && parts == 2)
      return {split ? Split<uint64_t, uint32_t> : Join<uint64_t, uint32_t>, operands};
    if (*type == Type::kB64)
      return {split ? Split<uint64_t, uint16_t> : Join<uint64_t, uint16_t>, operands};
    if (*type == Type::kB32 && parts == 2)
      return {split ? Split<uint32_t, uint16_t> : Join<uint32_t, uint16_t>, operands};
    return {};
  }
  if (*type == Type::kPred) return {CopyPredicate, "ds"};
  switch (SizeOf(*type)) {
    case 2:
      return {Copy<uint16_t>, "ds"};
    case 4:
      return {Copy<uint32_t>, "ds"};
    case 8:
      return {Copy<uint64_t>, "ds"};
    default:
      return {};
  }
}

}  // namespace carafe::vgpu::ptx
