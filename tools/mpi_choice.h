// Which MPI `carafe launch` uses.
#pragma once

#include <string>
#include <utility>

namespace carafe {

// The name of an MPI and its mpirun: the one that was asked for ("openmpi", "mpich"), else the
// first of which our plug-in and its mpirun are here. Throws ConfigError if there is none.
std::pair<std::string, std::string> ChooseMpi(const std::string& asked);

}  // namespace carafe
