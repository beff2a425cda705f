// The binaryproto form of a .solverstate; see state_file.h.
#pragma once

#include <string>

#include "carafe/base/error.h"
#include "carafe/solvers/state_file.h"

namespace carafe {

StateFile OpenBinaryState(const std::string& path);
// Without tensors, and without a check of the file.
StateFileFacts ReadBinaryFacts(const std::string& path);

// Throws DataError for more than 2 GiB, which no reader of protobuf takes.
template <typename T>
void WriteBinaryState(const std::string& path, const StateHead& head, const WriteTensors<T>& write);

DataError TooLargeForBinaryproto(const std::string& path);

}  // namespace carafe
