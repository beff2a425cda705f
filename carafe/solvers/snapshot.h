// Snapshots: <prefix>_iter_<N>.caffemodel and .solverstate, or both with .h5 at the end, and
// .manifest, each written whole or not at all, in this order.
#pragma once

#include <string>

#include "carafe/proto/state_messages.h"
#include "carafe/solvers/solver.h"

namespace carafe {

struct SnapshotFiles {
  std::string weights, state;
};

SnapshotFiles SnapshotNames(const std::string& prefix, int64_t iteration,
                            SolverParameter::SnapshotFormat format);

// Writes all files of a snapshot: weights, state, manifest. The solver has been
// drained, and `state` is what Capture (training_state.h) returned since.
template <typename T>
SnapshotFiles WriteSnapshot(Solver<T>& solver, const TrainingState& state);

// Restores weights and histories from a .solverstate; a file that is refused changes nothing.
// Returns the state, which the caller applies (training_state.h); one of Caffe has no sample
// position. The weights are looked for under the stored path, then beside the state.
template <typename T>
TrainingState ReadSnapshot(const std::string& state_path, Solver<T>& solver);

// Throws ConfigError where the first snapshot would fail: a folder that cannot be made or written,
// a net beyond the 2 GiB of a binaryproto, layers whose names collide in HDF5. Called before the
// first iteration.
template <typename T>
void CheckSnapshotPossible(Solver<T>& solver);

}  // namespace carafe
