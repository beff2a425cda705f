// Snapshots: <prefix>_iter_<N>.caffemodel and .solverstate, or both with .h5 at the end, each
// written whole or not at all, weights first.
#pragma once

#include <optional>
#include <string>

#include "carafe/solvers/solver.h"

namespace carafe {

struct SnapshotFiles {
  std::string weights, state;
};

SnapshotFiles SnapshotNames(const std::string& prefix, int64_t iteration,
                            SolverParameter::SnapshotFormat format);

// Writes both files. The caller has drained the exchange; `carafe` goes into the state beside
// Caffe's own fields.
template <typename T>
SnapshotFiles WriteSnapshot(Solver<T>& solver, const CarafeState& carafe);

// Restores weights, history, iteration and rate step from a .solverstate. Returns what Carafe
// stored beside them, or nothing for a file of the original. The weights are looked for under the
// stored path, then beside the state.
template <typename T>
std::optional<CarafeState> ReadSnapshot(const std::string& state_path, Solver<T>& solver);

// The newest <prefix>_iter_*.solverstate (or .solverstate.h5) that is whole, with its weights; ""
// if there is none.
std::string NewestSnapshot(const std::string& prefix);

// Throws ConfigError where the first snapshot would fail: a folder that cannot be made or written,
// a net beyond the 2 GiB of a binaryproto, layers that HDF5 could not tell apart. Called before the
// first iteration.
template <typename T>
void CheckSnapshotPossible(Solver<T>& solver);

}  // namespace carafe
