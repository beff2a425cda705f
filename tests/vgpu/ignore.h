// Mutants without a compiler: the call of one place in the program's code does nothing and succeeds
// (scripts/mutate_gpu.py). CARAFE_VGPU_IGNORE is the return address of the call, in hexadecimal,
// from the start of libcarafe.so; calls of tests are never ignored.
#pragma once

namespace carafe::vgpu {

// Whether the call that returns to `address` is the one to ignore.
bool IsIgnored(const void* address);

}  // namespace carafe::vgpu

// First line of an entry point.
#define CARAFE_VGPU_MAY_IGNORE() \
  if (carafe::vgpu::IsIgnored(__builtin_return_address(0))) return cudaSuccess
