// Memory that somebody outside still looks at, such as a NumPy array on a blob: it is freed when
// the last of them has let go, not before.
#pragma once

#include <cstddef>

#include "carafe/core/device.h"

namespace carafe {

// Holds the piece of memory that `memory` points into, from now until it is destroyed. May be made
// and destroyed by any thread.
class Pin {
 public:
  explicit Pin(const void* memory);
  ~Pin();
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;

 private:
  const void* const memory_;
};

// Whether a pin points into the piece. Costs next to nothing while there are no pins at all.
bool HasPin(const void* memory, size_t bytes);

// Frees a piece of memory: at once if no pin points into it, else when the last such pin goes.
void FreeUnpinned(Device& device, void* memory, size_t bytes) noexcept;

}  // namespace carafe
