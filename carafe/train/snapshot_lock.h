// One run at a time writes the snapshots of a prefix.
#pragma once

#include <string>

namespace carafe {

// Holds a lock on <prefix>.lock, an empty file that stays; the lock ends with the process, however
// it ends. Where the file system has no locks, or the file cannot be made, that is logged, and the
// run goes on. Throws ConfigError if another run holds it.
class SnapshotLock {
 public:
  explicit SnapshotLock(const std::string& prefix);
  ~SnapshotLock();
  SnapshotLock(const SnapshotLock&) = delete;
  SnapshotLock& operator=(const SnapshotLock&) = delete;

 private:
  int file_ = -1;
};

}  // namespace carafe
