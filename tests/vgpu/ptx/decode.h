// From an opcode such as "add.rn.ftz.f32" to the function that executes it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/vgpu/ptx/module.h"

namespace carafe::vgpu::ptx {

// How many values the first and second operand have in {}; 0: no braces.
struct Braces {
  size_t first = 0, second = 0;
};

// The parts of an opcode between its dots. What an instruction's family has not taken is unknown.
class Opcode {
 public:
  Opcode(std::string_view text, size_t num_operands, Braces braces = {});

  std::string_view base() const { return base_; }
  size_t num_operands() const { return num_operands_; }
  Braces braces() const { return braces_; }
  bool Take(std::string_view part);  // whether it was there
  std::optional<Type> TakeType();    // the first that is left
  std::optional<Round> TakeRound();  // .rn .rz .rm .rp
  bool empty() const { return parts_.empty(); }
  std::string_view front() const { return parts_.empty() ? std::string_view() : parts_.front(); }

 private:
  std::string_view base_;
  std::vector<std::string_view> parts_;
  size_t num_operands_;
  Braces braces_;
};

struct Decoded {
  Handler run = nullptr;  // null: unknown
  // One letter for each operand of the text:
  //   d  a register to write        q  the same, or two of them with "|" in between: two slots
  //   s  a value to read            a  an address: its slot is the first of all
  //   D  registers to write in {}   S  values to read in {}; one without {} is the same
  std::string_view operands;
};

// Each family takes what it knows, and may set round, flush, saturate, option and space.
Decoded DecodeInteger(Opcode& opcode, Instruction& instruction);
Decoded DecodeBits(Opcode& opcode, Instruction& instruction);
Decoded DecodeFloat(Opcode& opcode, Instruction& instruction);
Decoded DecodeApproximate(Opcode& opcode, Instruction& instruction);
Decoded DecodeCompare(Opcode& opcode, Instruction& instruction);
Decoded DecodeConvert(Opcode& opcode, Instruction& instruction);
Decoded DecodeMove(Opcode& opcode, Instruction& instruction);
Decoded DecodeMemory(Opcode& opcode, Instruction& instruction);
Decoded DecodeAtomic(Opcode& opcode, Instruction& instruction);
Decoded DecodeControl(Opcode& opcode, Instruction& instruction);
Decoded DecodeWarp(Opcode& opcode, Instruction& instruction);

// Asks all families.
Decoded Decode(Opcode opcode, Instruction& instruction);

std::optional<Type> TypeOf(std::string_view name);
Space TakeSpace(Opcode& opcode);  // generic if none is named

}  // namespace carafe::vgpu::ptx
