// `carafe launch --restarts`: a training that fails is started again, without a person.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "carafe/comm/launch_plan.h"
#include "tools/launch_job.h"

namespace carafe {

struct AttemptResult {
  JobResult result;
  std::string key;  // of its processes, see EndLeftovers
  std::vector<std::string> hosts;
  int ranks = 0;  // 0: mpirun chose their number
};
using RunAttemptFunction = std::function<AttemptResult(LaunchRequest)>;

// Runs the training `first` until it ends well, on request or for good, each time on the hosts that
// answer, which must take `min_ranks` ranks (0: as many as at first). Returns the last exit code.
int RunWithRestarts(const LaunchRequest& first, int restarts, int min_ranks,
                    const RunAttemptFunction& run);

}  // namespace carafe
