// What `carafe launch` runs: the command line of an mpirun that starts our ranks with the settings
// that they need.
#pragma once

#include <string>
#include <vector>

#include "carafe/comm/hosts.h"

namespace carafe {

struct LaunchRequest {
  std::string mpi = "openmpi";            // or "mpich"
  std::string mpirun = "mpirun.openmpi";  // the launcher of that MPI
  int ranks = 0;                          // 0: as many as the hosts have slots
  std::vector<HostSlots> hosts;           // empty: this machine
  std::string hostfile;                   // holds `hosts` in the form of that MPI; "": inline
  int threads_per_rank = 0;               // > 0: as many cores are bound to each rank
  bool as_root = false;
  std::vector<std::string> forwarded;  // environment variables that are set here
  std::vector<std::string> command;    // program and arguments of a rank
};

// Throws ConfigError if the number of ranks is neither given nor follows from the hosts.
std::vector<std::string> LaunchCommand(const LaunchRequest& request);

// As a line for a shell, quoted where needed.
std::string ShellLine(const std::vector<std::string>& command);

}  // namespace carafe
