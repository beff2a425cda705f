// The folder that a database is: judged before it is opened, and made so that it appears under its
// name only when it is complete.
#pragma once

#include <string>

namespace carafe {

// How a user makes a database, for the remedy of an error.
extern const char kHowToMakeADatabase[];

// Throws DataError unless `path` is a folder that holds `file`; `kind` is "an LMDB" or the like.
void CheckDatabaseFolder(const std::string& path, const std::string& kind, const std::string& file);

// The folder path.tmp.<pid> until Commit gives it its name; without Commit it is removed.
class PendingFolder {
 public:
  explicit PendingFolder(const std::string& path);  // DataError if the path exists
  PendingFolder(const PendingFolder&) = delete;
  PendingFolder& operator=(const PendingFolder&) = delete;
  ~PendingFolder();

  const std::string& path() const { return path_; }  // the final one
  const std::string& temporary() const { return temporary_; }
  // Syncs the folder and renames it. What lies in it must be synced and closed. Throws DataError.
  void Commit();

 private:
  void RefuseExisting() const;
  const std::string path_, temporary_;
  bool committed_ = false;
};

}  // namespace carafe
