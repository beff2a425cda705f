// `--stats_path=PATH`: times and bytes of each rank in the YAML of Bösen's statistics, PATH.R for
// rank R. Keys and documents are Bösen's: application, then background threads; those that count
// what does not exist here (rows, tables, operation logs) are left out. Bytes between a client and
// its own servers do not exist either: what a rank sent and received is all there is.
#pragma once

#include <string>
#include <vector>

#include "carafe/base/timer.h"
#include "carafe/train/step_stats.h"

namespace carafe {

// Of one rank; worker 0 stands for all its workers, which run in step with it.
class StatsYaml {
 public:
  // Writes a file without steps. Throws DataError where that fails.
  StatsYaml(const std::string& path, int rank);

  void BeginStep();  // the first one ends the start
  void Add(const StepSample& sample);
  void Write() const;  // throws DataError
  const std::string& path() const { return path_; }

 private:
  std::string Text() const;

  const std::string path_;
  const Timer life_;
  double start_seconds_ = -1;  // < 0: no step has begun
  StepSample sums_;
  std::vector<double> sent_, received_;  // MB, by step
};

}  // namespace carafe
