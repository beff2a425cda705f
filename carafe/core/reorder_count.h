// How often blobs have changed their memory format: what a plan has to avoid.
#pragma once

#include <cstdint>

namespace carafe {

// Reorders of a blob's elements in place by this thread, since it started.
int64_t ReordersOfThisThread();

}  // namespace carafe
