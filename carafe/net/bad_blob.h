// Finds the layer in which numbers became NaN or infinite.
#pragma once

#include <span>
#include <string>

#include "carafe/net/net.h"

namespace carafe {

// Runs this net's last forward passes again, which had these `passes` (run.pass is ignored), and
// looks at every top right after its layer, before its memory is released. Nothing else changes:
// parameters that Forward writes get their values back, and layers that cannot repeat a pass are
// not run. All workers must call it alike, because layers may sum over them. Returns
//   first in blob "ip1", a top of layer "drop" (Dropout)
// or, in the same style, that and why no bad blob was found.
template <typename T>
std::string FindBadBlob(Net<T>& net, RunContext& run, std::span<const Pass> passes);

}  // namespace carafe
