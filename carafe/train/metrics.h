// metrics.csv: every number that the log shows, one per row, for plots and scripts.
//   iteration,seconds,phase,net,name,value
// seconds count from the start of the run (a resumed run goes on from 0); phase is train or test;
// net is the number of the test net, 0 in training; name is loss, lr, images_per_second, data_wait
// (the share of time since the last display that rank 0 waited for data, 0 to 1), or an output blob
// ("accuracy", "prob[3]" for its elements).
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "carafe/base/timer.h"

namespace carafe {

class Metrics {
 public:
  Metrics() = default;  // writes nothing: all ranks but 0
  // A new file, or (resuming) further rows. Throws DataError if it cannot be written, ConfigError
  // if another run is writing it.
  Metrics(const std::string& path, bool append);
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;
  ~Metrics();

  void Add(int64_t iteration, const char* phase, int net, const std::string& name, double value);
  void Flush();

 private:
  std::FILE* file_ = nullptr;
  std::string path_;
  Timer timer_;
  bool failed_ = false;
};

}  // namespace carafe
