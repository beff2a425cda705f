// PTX, the text that nvcc generates for kernels, as the interpreter executes it: registers,
// immediate values and special registers are slots of a frame, labels are indices of instructions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace carafe::vgpu::ptx {

// An error of the PTX, or of what it does: which module, line and instruction.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Thread;
struct Instruction;
struct Function;
using Handler = void (*)(Thread& thread, const Instruction& instruction);

enum class Type {
  kB8,
  kU8,
  kS8,
  kB16,
  kU16,
  kS16,
  kB32,
  kU32,
  kS32,
  kB64,
  kU64,
  kS64,
  kF32,
  kF64,
  kPred
};
size_t SizeOf(Type type);

enum class Space { kGeneric, kGlobal, kShared, kLocal, kParam, kConst };

enum class Round { kNearest, kZero, kDown, kUp };

// Where the variables of a space begin in generic addresses. Device memory has the addresses of the
// process; no process has these. Addresses inside local and shared memory are offsets from 256 on,
// so that null is none of them.
constexpr uint64_t kLocalBase = uint64_t{0x7100} << 48, kSharedBase = uint64_t{0x7200} << 48,
                   kModuleBase = uint64_t{0x7300} << 48;  // .const and .global variables
constexpr uint64_t kFirstOffset = 256;

// Slots of every frame for %tid, %ntid, %ctaid and %nctaid (x, y, z each) and the others.
enum SpecialSlot {
  kTid = 0,
  kNtid = 3,
  kCtaid = 6,
  kNctaid = 9,
  kLaneId = 12,
  kWarpId = 13,
  kSpecialSlots = 14
};

struct Call {
  const Function* callee = nullptr;
  std::string name;
  std::vector<std::string> results, arguments;                   // names of .param variables
  std::vector<std::pair<size_t, size_t>> copies_in, copies_out;  // offsets: caller's and callee's
  std::vector<size_t> sizes_in, sizes_out;
};

struct Instruction {
  Handler run = nullptr;
  int guard = -1;  // slot of a predicate; -1: none
  bool guard_is = true;
  Round round = Round::kNearest;
  bool flush = false;     // .ftz
  bool saturate = false;  // .sat
  uint8_t count = 0;      // operands
  uint8_t option = 0;     // the handler's own
  Space space = Space::kGeneric;
  std::array<int32_t, 7> slot{};  // operands in the order of the text; of an address the register
  int64_t offset = 0;             // of an address, in bytes
  size_t target = 0;              // of a branch
  const Call* call = nullptr;
  const Function* function = nullptr;  // that it belongs to
  int line = 0;
};

struct Variable {
  size_t offset = 0;  // in the space
  size_t bytes = 0;
};

// An .entry or .func.
struct Function {
  std::string name;
  bool is_entry = false, has_body = false;
  std::vector<Instruction> code;
  std::vector<uint64_t> frame;   // initial values: 0, and the immediates
  std::vector<int> local_slots;  // of `frame`: offsets in local memory, which depend on the depth
  std::vector<Variable> params;  // those that the caller gives, then results, then those of calls
  size_t num_params = 0, num_results = 0;
  size_t param_bytes = 0;
  size_t local_bytes = 0;
  std::vector<std::unique_ptr<Call>> calls;
  const std::string* module_name = nullptr;
  const std::vector<std::string>* lines = nullptr;  // of the module's text
  size_t shared_bytes = 0;                          // static; of the module, for entries
};

struct Module {
  std::string name;
  std::vector<std::string> lines;
  std::map<std::string, std::unique_ptr<Function>> functions;
  std::vector<std::byte> memory;    // .const and .global variables, from kModuleBase on
  std::vector<Variable> variables;  // in `memory`

  // Null if there is none of that name.
  const Function* Entry(const std::string& entry) const;
};

// Throws Error for what it does not know. `name` is for messages.
std::unique_ptr<Module> Parse(const std::string& name, const std::string& text);

// `NAME:LINE: "TEXT" in FUNCTION`
std::string Where(const Function& function, int line);

}  // namespace carafe::vgpu::ptx
