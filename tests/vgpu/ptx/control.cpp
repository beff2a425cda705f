// Branches, calls, ends, barriers of a block and fences.
#include "tests/vgpu/ptx/decode.h"
#include "tests/vgpu/ptx/thread.h"

namespace carafe::vgpu::ptx {
namespace {

void Branch(Thread& t, const Instruction& i) { t.next = i.target; }

void Exit(Thread& t, const Instruction&) { t.state = State::kEnded; }

void CallFunction(Thread& t, const Instruction& i) {
  const Call& call = *i.call;
  Enter(t, *call.callee, &call, t.next);
  const Frame& caller = t.frames[t.depth - 2];
  for (size_t k = 0; k < call.copies_in.size(); ++k) {
    const auto [from, to] = call.copies_in[k];
    std::memcpy(t.frame().params.data() + to, caller.params.data() + from, call.sizes_in[k]);
  }
}

void Return(Thread& t, const Instruction&) {
  if (t.depth == 1) {
    t.state = State::kEnded;
    return;
  }
  const Frame& callee = t.frame();
  --t.depth;
  Frame& caller = t.frame();
  const Call& call = *callee.call;
  for (size_t k = 0; k < call.copies_out.size(); ++k) {
    const auto [to, from] = call.copies_out[k];
    std::memcpy(caller.params.data() + to, callee.params.data() + from, call.sizes_out[k]);
  }
  t.next = callee.return_to;
  t.slots = caller.slots.data();
}

void Barrier(Thread& t, const Instruction& i) {
  t.state = State::kAtBarrier;
  t.waits_at = &i;
}

void Trap(Thread& t, const Instruction& i) { Fail(t, i, "the kernel ends itself"); }

void Nothing(Thread&, const Instruction&) {}

}  // namespace

Decoded DecodeControl(Opcode& opcode, Instruction&) {
  const std::string_view base = opcode.base();
  if (base == "bra" || base == "call" || base == "ret") opcode.Take("uni");
  if (base == "bra") return {Branch, ""};
  if (base == "call") return {CallFunction, ""};
  if (base == "ret") return {Return, ""};
  if (base == "exit") return {Exit, ""};
  if (base == "trap") return {Trap, ""};
  if (base == "bar" || base == "barrier") {
    opcode.Take("cta");
    if (opcode.Take("sync") && opcode.front() != "warp") {
      if (base == "barrier") opcode.Take("aligned");
      return {Barrier, "s"};  // of all threads; a number of threads is not known
    }
  }
  if (base == "membar" && (opcode.Take("cta") || opcode.Take("gl") || opcode.Take("sys")))
    return {Nothing, ""};
  if (base == "fence") {
    for (const char* part : {"sc", "acq_rel", "cta", "gpu", "sys"}) opcode.Take(part);
    return {Nothing, ""};
  }
  return {};
}

}  // namespace carafe::vgpu::ptx
