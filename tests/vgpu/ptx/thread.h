// One thread of a block as it executes: frames of registers, local memory, and what it waits for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "tests/vgpu/ptx/module.h"

namespace carafe::vgpu::ptx {

// The device's memory as kernels see it.
class GlobalMemory {
 public:
  virtual ~GlobalMemory() = default;
  // Throws or ends the process unless [address, address + bytes) lies in one allocation.
  virtual void Check(uint64_t address, size_t bytes, const Instruction& by) const = 0;
};

// What the threads of a block share.
struct Block {
  Module* module = nullptr;
  const GlobalMemory* global = nullptr;
  std::span<const std::byte> params;  // of the kernel
  std::vector<std::byte> shared;
};

enum class State { kRunning, kEnded, kAtBarrier, kAtWarpOperation };

struct Frame {
  const Function* function = nullptr;
  const Call* call = nullptr;  // that made it; null: the kernel's own
  size_t return_to = 0;
  std::vector<uint64_t> slots;
  std::vector<std::byte> params;
  size_t local_begin = 0;  // in the thread's local memory
};

struct Thread {
  Block* block = nullptr;
  State state = State::kRunning;
  size_t next = 0;            // instruction
  uint64_t* slots = nullptr;  // of the current frame
  const Instruction* waits_at = nullptr;
  uint32_t index = 0;  // in the block
  size_t depth = 0;    // frames in use, which are kept for the next thread
  std::vector<Frame> frames;
  std::vector<std::byte> local;

  Frame& frame() { return frames[depth - 1]; }
  template <typename T>
  T Get(int slot) const {
    T value;
    std::memcpy(&value, slots + slot, sizeof value);
    return value;
  }
  // Narrow signed integers are sign-extended, all else is zero-extended to the slot.
  template <typename T>
  void Set(int slot, T value) {
    uint64_t wide = 0;
    if constexpr (std::is_integral_v<T>) {
      wide = static_cast<uint64_t>(
          static_cast<std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>(value));
    } else {
      std::memcpy(&wide, &value, sizeof value);
    }
    slots[slot] = wide;
  }
  template <typename T>
  T Operand(const Instruction& i, int number) const {
    return Get<T>(i.slot[static_cast<size_t>(number)]);
  }
  template <typename T>
  void Result(const Instruction& i, T value) {
    Set<T>(i.slot[0], value);
  }
};

// Throws Error: where, which thread, and what.
[[noreturn]] void Fail(const Thread& thread, const Instruction& by, const std::string& what);

// Adds a frame for the function.
void Enter(Thread& thread, const Function& function, const Call* call, size_t return_to);

// The memory behind an address of the instruction's space. Throws unless all bytes may be accessed
// and the address is a multiple of `align`.
std::byte* Resolve(Thread& thread, const Instruction& by, uint64_t address, size_t bytes,
                   size_t align, bool writes);

}  // namespace carafe::vgpu::ptx
