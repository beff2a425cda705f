// `--stats`: where the time of every iteration went, rank by rank, as CSV; and who is the slowest.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "carafe/comm/group.h"

namespace carafe {

// One rank's part of an iteration. Doubles only: it is sent as it is.
struct StepSample {
  double seconds = 0;     // of the iteration
  double ready = 0;       // from its start until the last gradient was there, without comm_wait
  double data_wait = 0;   // seconds in which the net waited for data
  double comm_wait = 0;   // seconds in which it waited for other ranks: exposed communication
  double comm_busy = 0;   // seconds with at least one message under way
  double bytes_sent = 0;  // payload
  double bytes_received = 0;
};

// The share of communication that was hidden behind work, 0 to 1; 1 if there was none.
double HiddenShare(const StepSample& sample);

// Used by all ranks alike; rank 0 has the file.
class StepStats {
 public:
  // Throws DataError on rank 0 if the file cannot be written.
  StepStats(const std::string& path, Group& group);
  StepStats(const StepStats&) = delete;
  StepStats& operator=(const StepStats&) = delete;
  ~StepStats();

  void Add(int64_t iteration, const StepSample& mine);  // a collective call
  std::string Summary() const;  // on rank 0: means, and how often each rank was the last one ready

 private:
  Group& group_;
  std::FILE* file_ = nullptr;
  std::vector<int64_t> last_;  // by rank: iterations in which it was ready last
  StepSample sums_;            // over iterations and ranks
  int64_t iterations_ = 0;
};

}  // namespace carafe
