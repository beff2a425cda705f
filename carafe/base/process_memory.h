// How much memory this process has used.
#pragma once

#include <cstdint>

namespace carafe {

// The most that was resident at once, in bytes; 0 where the system does not say.
int64_t PeakResidentBytes();

}  // namespace carafe
