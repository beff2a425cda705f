// .solverstate files, as a binaryproto or as HDF5: datasets iter, current_step, learned_net and
// history/<i>, and what Carafe adds as carafe/<field>.
#pragma once

#include <string>
#include <vector>

#include "carafe/core/blob.h"
#include "carafe/proto/messages.h"

namespace carafe {

struct StoredState {
  SolverState head;  // all but the history
  std::vector<std::vector<double>> history;
};

// The form is told by the content. Throws DataError for a missing, truncated or foreign file.
StoredState ReadStateFile(const std::string& path);

// Written whole or not at all. `head` has no history.
template <typename T>
void WriteStateFile(Stream& stream, SolverState head, const std::vector<Blob<T>>& history,
                    SolverParameter::SnapshotFormat format, const std::string& path);

// Throws DataError for what is beyond the 2 GiB that a binaryproto can be.
std::string SerializeSnapshot(const google::protobuf::MessageLite& message,
                              const std::string& path);

}  // namespace carafe
