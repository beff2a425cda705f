// Memory of this process that others of the same machine may map: gradients that neighbours read
// where they lie. It has no name in any file system, and is gone with the last who maps it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace carafe {

// What another process needs to find it: the descriptor, open in this process, of `bytes` bytes.
struct ShareableMemory {
  uint64_t id = 0;  // never given twice in a process
  int descriptor = -1;
  char* begin = nullptr;  // here
  size_t bytes = 0;
};

// Zeros, aligned to cache lines, with a line before the piece that is the caller's. Null: the
// system has none to give. By any thread, as the others.
void* AllocateShareable(size_t bytes) noexcept;
void FreeShareable(void* memory) noexcept;  // what AllocateShareable gave
// The whole of which [memory, memory + bytes) is a part, if there is one.
std::optional<ShareableMemory> FindShareable(const void* memory, size_t bytes);

}  // namespace carafe
