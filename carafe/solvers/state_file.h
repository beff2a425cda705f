// .solverstate files: Caffe's SolverState with our TrainingState in it, and tensors that are
// streamed one at a time. Two forms, both readable by Caffe:
//   binaryproto  a StateHead (training_state.proto) with the tensors among its fields
//   HDF5         the fields of StateHead as in message_hdf5.h (iter, current_step, learned_net and
//                the groups carafe and file), whole histories as history/<i>, the rest as
//                tensors/<i>
// Both end with a checksum (state_checksum.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "carafe/proto/messages.h"
#include "carafe/proto/state_messages.h"
#include "carafe/solvers/tensor_stream.h"

namespace carafe {

struct StateFile {
  StateHead head;         // all but the tensors
  bool verified = false;  // by its checksum; a file of Caffe or of an older version has none
  std::unique_ptr<TensorSource> tensors;
};

// The form is recognised by the content. Throws DataError for a missing, truncated or foreign file,
// and for one that does not match its checksum.
StateFile OpenStateFile(const std::string& path);

// When it was written, in microseconds since 1970: as the file says, else as the file system says.
// Reads no tensor and verifies nothing; 0 for a file that cannot be read.
int64_t StateWriteTime(const std::string& path);

template <typename T>
using WriteTensors = std::function<void(TensorSink<T>& sink)>;

// Written whole or not at all. `head` has no tensors; `write` gives them to the sink. Checksum and
// time in head.file() are set here.
template <typename T>
void WriteStateFile(const std::string& path, SolverParameter::SnapshotFormat format,
                    const StateHead& head, const WriteTensors<T>& write);

// Throws DataError for a message beyond the 2 GiB of a binaryproto.
std::string SerializeSnapshot(const google::protobuf::MessageLite& message,
                              const std::string& path);

}  // namespace carafe
