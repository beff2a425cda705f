// How large a snapshot will be, known from the shapes before anything is trained: a binaryproto
// file ends at 2 GiB.
#pragma once

#include "carafe/net/net.h"
#include "carafe/solvers/solver_spec.h"

namespace carafe {

struct SnapshotBytes {
  int64_t weights = 0;  // .caffemodel: parameters that layers share are in it once per layer
  int64_t state = 0;    // .solverstate
};

// As binaryproto; a little too large rather than too small. `slots` is the rule's number of history
// values per parameter. The net needs no memory yet.
template <typename T>
SnapshotBytes BinarySnapshotBytes(const Net<T>& net, int slots, bool with_diff);

// Throws ConfigError if the solver is going to write a snapshot that cannot be written.
template <typename T>
void CheckSnapshotSize(const SolverSpec& spec, const Net<T>& net);

}  // namespace carafe
