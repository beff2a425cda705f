#include "carafe/train/snapshot_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "carafe/base/error.h"
#include "carafe/base/log.h"

namespace carafe {

SnapshotLock::SnapshotLock(const std::string& prefix) {
  const std::string path = prefix + ".lock";
  file_ = open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (file_ >= 0 && flock(file_, LOCK_EX | LOCK_NB) == 0) return;
  const int error = errno;
  if (file_ >= 0) close(file_);
  file_ = -1;
  if (error != EWOULDBLOCK) {
    LogWarning("{} cannot be locked ({}): nothing keeps another run from the same snapshots", path,
               std::strerror(error));
    return;
  }
  throw ConfigError(fmt::format("another run writes snapshots {}_iter_*", prefix),
                    "wait for it to end, or give this run a snapshot_prefix of its own");
}

SnapshotLock::~SnapshotLock() {
  if (file_ >= 0) close(file_);
}

}  // namespace carafe
