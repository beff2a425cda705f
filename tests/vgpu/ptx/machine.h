// Executes a kernel over its grid.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "tests/vgpu/ptx/thread.h"

namespace carafe::vgpu::ptx {

struct Grid {
  std::array<uint32_t, 3> blocks{1, 1, 1}, threads{1, 1, 1};
  size_t shared_bytes = 0;  // dynamic
};

// Runs all blocks, one after another; in each, every thread until it ends or waits. Throws Error.
// `params` is the memory of the kernel's parameters, as many bytes as function.param_bytes for
// them. Returns the number of instructions executed.
uint64_t Execute(Module& module, const Function& kernel, const Grid& grid,
                 std::span<const std::byte> params, const GlobalMemory& memory);

}  // namespace carafe::vgpu::ptx
