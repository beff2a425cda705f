// Removes old snapshots (--keep, --keep_every).
#pragma once

#include <cstdint>
#include <string>

namespace carafe {

// Leaves the `keep` newest snapshots of the prefix, and those whose iteration is a multiple of
// `keep_every`, if that is not 0. Called after a snapshot was written whole. A file that cannot be
// removed is logged.
void RemoveOldSnapshots(const std::string& prefix, int64_t keep, int64_t keep_every);

}  // namespace carafe
