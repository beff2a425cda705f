#include "carafe/solvers/state_file.h"

#include <sys/stat.h>

#include <chrono>
#include <climits>

#include "carafe/base/checksum.h"
#include "carafe/base/error.h"
#include "carafe/base/file.h"
#include "carafe/data/hdf5_file.h"
#include "carafe/solvers/state_binary.h"
#include "carafe/solvers/state_checksum.h"
#include "carafe/solvers/state_hdf5.h"

namespace carafe {
namespace {

int64_t NowUs() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

int64_t ModificationTimeUs(const std::string& path) {
  struct stat facts = {};
  if (stat(path.c_str(), &facts) != 0) return 0;
  return int64_t{facts.st_mtim.tv_sec} * 1000000 + facts.st_mtim.tv_nsec / 1000;
}

}  // namespace

StateFile OpenStateFile(const std::string& path) {
  const bool verified = VerifyStateChecksum(path);  // first: libhdf5 trusts what it reads
  StateFile file = IsHdf5(path) ? OpenHdf5State(path) : OpenBinaryState(path);
  file.verified = verified;
  if (file.head.file().has_checksum() && !verified) {
    throw DataError(path, -1, "this is not a whole .solverstate: its checksum is missing",
                    "the file is truncated or was changed; use an older snapshot, or "
                    "--snapshot=auto");
  }
  return file;
}

int64_t StateWriteTime(const std::string& path) {
  try {
    const StateFileFacts facts = IsHdf5(path) ? ReadHdf5Facts(path) : ReadBinaryFacts(path);
    if (facts.has_written_us()) return facts.written_us();
  } catch (const Error&) {  // opening the file reports it
  }
  return ModificationTimeUs(path);
}

template <typename T>
void WriteStateFile(const std::string& path, SolverParameter::SnapshotFormat format,
                    const StateHead& head, const WriteTensors<T>& write) {
  StateHead stored = head;
  stored.mutable_file()->set_checksum(kChecksumKind);
  stored.mutable_file()->set_written_us(NowUs());
  WriteAtomically(path, [&](const std::string& temporary) {
    if (format == SolverParameter::HDF5) {
      WriteHdf5State<T>(temporary, stored, write);
    } else {
      WriteBinaryState<T>(temporary, stored, write);
    }
    AppendStateChecksum(temporary);
  });
}

std::string SerializeSnapshot(const google::protobuf::MessageLite& message,
                              const std::string& path) {
  std::string bytes;
  if (message.ByteSizeLong() > INT_MAX || !message.SerializeToString(&bytes)) {
    throw TooLargeForBinaryproto(path);
  }
  return bytes;
}

template void WriteStateFile<float>(const std::string&, SolverParameter::SnapshotFormat,
                                    const StateHead&, const WriteTensors<float>&);
template void WriteStateFile<double>(const std::string&, SolverParameter::SnapshotFormat,
                                     const StateHead&, const WriteTensors<double>&);

}  // namespace carafe
