// Finds the ranks of this host and maps the memory through which they send.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "carafe/comm/shm_ring.h"
#include "carafe/comm/shm_segment.h"
#include "carafe/comm/shm_transport.h"
#include "carafe/comm/transport.h"

namespace carafe {

// The ranks of this host. Each has a segment with a ring to every one of them (its own is unused).
struct ShmNeighbours {
  std::vector<int> ranks;            // this one among them
  std::vector<int64_t> pids;         // of the same
  std::vector<ShmSegment> segments;  // of the same
  size_t mine = 0;                   // index of this rank in the three
};

// Both are collective calls. The ranks whose options.identity is equal to this one's:
ShmNeighbours FindNeighbours(Transport& transport, const ShmOptions& options);
// Fills neighbours.segments; returns why one of the ranks could not, or "". The memory has no name
// in the file system: nothing is left behind.
std::string ShareSegments(Transport& transport, const ShmOptions& options,
                          ShmNeighbours& neighbours);

// The ring in the segment of its sender.
ShmRing* RingTo(const ShmSegment& segment, size_t receiver);

}  // namespace carafe
