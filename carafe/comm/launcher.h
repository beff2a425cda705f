// Who started this process: reads the launcher's environment, loads the MPI that belongs to it, and
// makes the group. Without a launcher no MPI is touched.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "carafe/comm/group.h"

namespace carafe {

struct Launch {
  std::string mpi;       // "openmpi", "mpich", or "" for a single process
  std::string launcher;  // for messages: "mpirun of Open MPI (OMPI_COMM_WORLD_SIZE)"
  int rank = 0;
  int size = 1;  // 0: only MPI knows
  int local_rank = 0;
  int local_size = 1;
};

// Reads the environment only. Throws ConfigError for a launcher with several ranks whose MPI could
// not be detected. CARAFE_MPI=openmpi|mpich overrides what the variables suggest.
Launch DetectLaunch();

// The group of this process: rank 0 of 1 without a launcher, or all ranks over MPI. Throws
// ConfigError when the plug-in of the launcher's MPI is missing, or when MPI and the launcher
// disagree on the number of ranks: N ranks never become N jobs of one rank.
//
// MPI_Init waits forever for a rank that hangs, or is cut off, before it gets there, and cannot be
// left. `stuck` is called on another thread when that takes longer than timeouts.wait (on rank 0;
// the others give it a second or two to report for all); it should end the process.
std::unique_ptr<Group> StartGroup(
    const CommTimeouts& timeouts = {},
    const std::function<void(const std::string& error)>& stuck = nullptr);

}  // namespace carafe
