// What the 32 threads of a warp do together: shfl vote redux bar.warp.
#pragma once

#include <array>
#include <string>

#include "tests/vgpu/ptx/thread.h"

namespace carafe::vgpu::ptx {

constexpr uint32_t kWarp = 32;
using Warp = std::array<Thread*, kWarp>;  // null: the block has no such thread, or it has ended

// Completes what all of the threads that it names wait at. False if there is nothing of that kind.
// Throws if a shuffle reads a thread that is not taking part.
bool CompleteWarp(const Warp& warp);

}  // namespace carafe::vgpu::ptx
