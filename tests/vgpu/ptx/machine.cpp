#include "tests/vgpu/ptx/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "tests/vgpu/ptx/warp.h"

namespace carafe::vgpu::ptx {
namespace {

constexpr auto kPoison = std::byte{0xff};  // memory that nobody has written

class Machine {
 public:
  Machine(Module& module, const Function& kernel, const Grid& grid,
          std::span<const std::byte> params, const GlobalMemory& memory)
      : kernel_(kernel), grid_(grid) {
    block_.module = &module;
    block_.global = &memory;
    block_.params = params;
    threads_.resize(size_t{grid.threads[0]} * grid.threads[1] * grid.threads[2]);
    ended_.resize(threads_.size());
  }

  uint64_t Run() {
    for (uint32_t z = 0; z < grid_.blocks[2]; ++z) {
      for (uint32_t y = 0; y < grid_.blocks[1]; ++y) {
        for (uint32_t x = 0; x < grid_.blocks[0]; ++x) RunBlock({x, y, z});
      }
    }
    return executed_;
  }

 private:
  void RunBlock(const std::array<uint32_t, 3>& index) {
    block_index_ = index;
    block_.shared.assign(kernel_.shared_bytes + grid_.shared_bytes, kPoison);
    num_ended_ = 0;
    std::fill(ended_.begin(), ended_.end(), false);
    while (num_ended_ < threads_.size()) {
      for (size_t i = 0; i < threads_.size(); ++i) RunThread(i);
      if (num_ended_ == threads_.size() || CompleteWarps() || CompleteBarrier()) continue;
      ReportWaiting();
    }
  }

  // Until it ends or waits. A thread has memory only in between, which the next one gets.
  void RunThread(size_t i) {
    if (ended_[i]) return;
    if (threads_[i] == nullptr) Start(i);
    Thread& thread = *threads_[i];
    if (thread.state == State::kRunning) Step(thread);
    if (thread.state != State::kEnded) return;
    ended_[i] = true;
    ++num_ended_;
    pool_.push_back(std::move(threads_[i]));
  }

  void Start(size_t i) {
    if (pool_.empty()) pool_.push_back(std::make_unique<Thread>());
    threads_[i] = std::move(pool_.back());
    pool_.pop_back();
    Thread& thread = *threads_[i];
    const auto index = static_cast<uint32_t>(i);
    thread.block = &block_;
    thread.state = State::kRunning;
    thread.index = index;
    thread.depth = 0;
    Enter(thread, kernel_, nullptr, 0);
    if (!block_.params.empty()) {
      std::memcpy(thread.frame().params.data(), block_.params.data(), block_.params.size());
    }
    const auto& [nx, ny, nz] = grid_.threads;
    const std::array<uint32_t, 3> tid{index % nx, index / nx % ny, index / nx / ny};
    for (size_t axis = 0; axis < 3; ++axis) {
      thread.slots[kTid + axis] = tid[axis];
      thread.slots[kNtid + axis] = grid_.threads[axis];
      thread.slots[kCtaid + axis] = block_index_[axis];
      thread.slots[kNctaid + axis] = grid_.blocks[axis];
    }
    thread.slots[kLaneId] = index % kWarp;
    thread.slots[kWarpId] = index / kWarp;
  }

  void Step(Thread& thread) {
    const Function* function = thread.frame().function;
    const Instruction* code = function->code.data();
    size_t depth = thread.depth;
    while (thread.state == State::kRunning) {
      const Instruction& i = code[thread.next++];
      ++executed_;
      if (i.guard >= 0 && (thread.slots[i.guard] != 0) != i.guard_is) continue;
      i.run(thread, i);
      if (thread.depth != depth) {  // a call, or its end
        depth = thread.depth;
        code = thread.frame().function->code.data();
      }
    }
  }

  bool CompleteWarps() {
    bool completed = false;
    for (size_t begin = 0; begin < threads_.size(); begin += kWarp) {
      Warp warp{};
      for (size_t lane = 0; lane < kWarp && begin + lane < threads_.size(); ++lane) {
        warp[lane] = threads_[begin + lane].get();
      }
      if (CompleteWarp(warp)) completed = true;
    }
    return completed;
  }

  // All threads of the block, at the same instruction.
  bool CompleteBarrier() {
    const Instruction* at = nullptr;
    for (const auto& thread : threads_) {
      if (thread == nullptr || thread->state != State::kAtBarrier) return false;
      if (at != nullptr && thread->waits_at != at) return false;
      at = thread->waits_at;
    }
    for (const auto& thread : threads_) thread->state = State::kRunning;
    return true;
  }

  // Some wait, and nobody can go on.
  [[noreturn]] void ReportWaiting() {
    const Thread* first = nullptr;
    for (const auto& thread : threads_) {
      if (thread != nullptr && first == nullptr) first = thread.get();
    }
    size_t same = 0;
    for (const auto& thread : threads_) {
      if (thread != nullptr && thread->waits_at == first->waits_at) ++same;
    }
    const bool barrier = first->state == State::kAtBarrier;
    Fail(*first, *first->waits_at,
         fmt::format("only {} of {} threads have reached this {}, {} have ended", same,
                     threads_.size(), barrier ? "barrier" : "operation of a warp", num_ended_));
  }

  const Function& kernel_;
  const Grid grid_;
  Block block_;
  std::array<uint32_t, 3> block_index_{};
  std::vector<std::unique_ptr<Thread>> threads_;  // null: not started, or ended
  std::vector<bool> ended_;
  size_t num_ended_ = 0;
  std::vector<std::unique_ptr<Thread>> pool_;
  uint64_t executed_ = 0;
};

}  // namespace

void Fail(const Thread& thread, const Instruction& by, const std::string& what) {
  const std::vector<uint64_t>& slots = thread.frames.front().slots;
  throw Error(fmt::format("{}: thread ({}, {}, {}) of block ({}, {}, {}): {}",
                          Where(*by.function, by.line), slots[kTid], slots[kTid + 1],
                          slots[kTid + 2], slots[kCtaid], slots[kCtaid + 1], slots[kCtaid + 2],
                          what));
}

void Enter(Thread& thread, const Function& function, const Call* call, size_t return_to) {
  constexpr size_t kMostFrames = 64;
  if (thread.depth == kMostFrames)
    Fail(thread, function.code.front(), "functions call each other too deeply");
  if (thread.frames.size() == thread.depth) thread.frames.emplace_back();
  Frame& frame = thread.frames[thread.depth];
  const Frame* caller = thread.depth == 0 ? nullptr : &thread.frames[thread.depth - 1];
  constexpr size_t kAlign = 256;
  frame.local_begin =
      caller == nullptr
          ? 0
          : (caller->local_begin + caller->function->local_bytes + kAlign - 1) / kAlign * kAlign;
  frame.function = &function;
  frame.call = call;
  frame.return_to = return_to;
  frame.slots.assign(function.frame.begin(), function.frame.end());
  for (const int slot : function.local_slots)
    frame.slots[static_cast<size_t>(slot)] += frame.local_begin;
  frame.params.assign(function.param_bytes, kPoison);
  thread.local.resize(frame.local_begin);
  thread.local.resize(frame.local_begin + function.local_bytes, kPoison);
  if (caller != nullptr)
    std::copy_n(caller->slots.begin(), size_t{kSpecialSlots}, frame.slots.begin());
  thread.slots = frame.slots.data();
  thread.next = 0;
  ++thread.depth;
}

uint64_t Execute(Module& module, const Function& kernel, const Grid& grid,
                 std::span<const std::byte> params, const GlobalMemory& memory) {
  return Machine(module, kernel, grid, params, memory).Run();
}

}  // namespace carafe::vgpu::ptx
