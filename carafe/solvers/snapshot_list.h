// The snapshots that a folder holds, and whether their files are whole.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "carafe/proto/state_messages.h"

namespace carafe {

struct FoundSnapshot {
  std::string prefix;  // as snapshot_prefix would be
  int64_t iteration = 0;
  std::string state;       // the path of the .solverstate
  int64_t written_us = 0;  // see StateWriteTime
};

// The snapshots <prefix>_iter_*, the newest first: by the time they were written, because a new run
// with the same prefix begins at 0 again. Of the same time, the higher iteration comes first.
std::vector<FoundSnapshot> FindSnapshots(const std::string& prefix);
// Those of every prefix in the folder.
std::vector<FoundSnapshot> FindSnapshotsIn(const std::string& folder);

struct SnapshotFacts {
  std::string weights;    // the path of the .caffemodel
  bool verified = false;  // both files match their checksums; an older file has none
};
// Reads the files of a snapshot. Throws DataError if one is missing, cut off or damaged.
SnapshotFacts CheckSnapshotFiles(const std::string& state);

// The weights that the state names: the stored path, or the file of that name beside the state.
// Throws DataError if there is neither.
std::string FindWeights(const StateHead& state, const std::string& state_path);

// The newest snapshot that is whole, or "".
std::string NewestSnapshot(const std::string& prefix);

}  // namespace carafe
