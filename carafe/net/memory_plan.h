// When the blobs of a net are dead, so that their memory can be used again.
#pragma once

#include <cstddef>
#include <memory>
#include <set>
#include <vector>

#include "carafe/core/memory_pool.h"
#include "carafe/core/stream.h"
#include "carafe/net/parameters.h"

namespace carafe {

enum class MemorySharing {
  kNone,      // every blob has its own memory, and can be looked at after a pass
  kForward,   // only forward passes will be run: data are dead after their last reader
  kTraining,  // data live until the last backward reader, diffs within the backward pass
};

// One half of a blob, and of those that share it.
struct BlobHalf {
  int blob;
  bool diff;
};

struct MemoryPlan {
  std::vector<BlobHalf> pooled;                            // all that take part
  std::vector<std::vector<BlobHalf>> dead_after_forward;   // by layer
  std::vector<std::vector<BlobHalf>> dead_after_backward;  // by layer
  // Of one forward (and backward) pass at the blobs' shapes of now, in bytes:
  size_t data_bytes = 0, diff_bytes = 0;  // if every blob that takes part had its own
  size_t kept_bytes = 0;                  // what layers keep from Forward to Backward
  size_t live_bytes = 0;                  // the most that is alive at once
  size_t pool_bytes = 0;                  // what a pool for it takes, gaps included
  size_t own_bytes = 0;                   // blobs that do not take part: inputs, outputs
};

// Not shared are: what layers without bottoms make (it may be made once for all passes), outputs
// of the net, losses, and the blobs in `keep`, together with all that share memory with those.
template <typename T>
MemoryPlan PlanMemory(const Graph<T>& graph, const Parameters<T>& params, MemorySharing sharing,
                      const std::set<int>& keep);

}  // namespace carafe
