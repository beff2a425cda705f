// How `carafe launch --restarts` continues a training that has failed: with the command of the
// first attempt, from the newest snapshot that the job itself has written.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "carafe/solvers/snapshot_list.h"

namespace carafe {

class TrainingResume {
 public:
  // Before the first attempt: snapshots that exist now are those of other runs. Throws ConfigError
  // if the command is no training or its solver cannot be read.
  explicit TrainingResume(const std::vector<std::string>& command);

  // The newest snapshot of this job whose files are whole.
  std::optional<FoundSnapshot> Newest() const;
  // The command of the next attempt. With fewer ranks than at first the batch of all of them stays
  // what it was, and with it the meaning of the learning rate. Throws ConfigError if that is
  // unknown because there is no snapshot.
  std::vector<std::string> Command(bool same_ranks) const;

  // Adds a line to <prefix>_incidents.csv and returns it for the reader. A file that cannot be
  // written is a warning.
  std::string Record(int attempt, int ranks, int code, const std::string& who) const;
  const std::string& incidents_path() const { return incidents_; }

 private:
  // The last iteration that the log of the training shows, or -1.
  int64_t LastIterationShown() const;

  std::vector<std::string> command_;
  std::string prefix_, log_, incidents_;
  std::set<std::pair<std::string, int64_t>> others_;  // path and time of snapshots of other runs
};

}  // namespace carafe
