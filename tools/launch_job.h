// One attempt of `carafe launch`: an mpirun that runs until it ends, or is ended.
#pragma once

#include <string>
#include <vector>

#include "carafe/comm/launch_report.h"

namespace carafe {

struct JobResult {
  int code = 0;               // of the job
  bool would_repeat = false;  // a rank has ended by an error of settings
  std::string who;            // "rank 2 on node3", which failed first or is missing; "" if unknown
};

// Starts the command and waits for its end. Signals are passed on. If ranks have ended and mpirun
// does not, ends what is left of the job on this host and on `hosts`. `passes_usr2`: this mpirun
// passes SIGUSR2 on to its ranks.
JobResult RunJob(const std::vector<std::string>& command, bool passes_usr2, LaunchReports& reports,
                 JobEnd job, const std::vector<std::string>& hosts);

// Whether this process has got a signal that asks the job to end (SIGINT, SIGTERM, SIGQUIT).
bool StopRequested();

}  // namespace carafe
