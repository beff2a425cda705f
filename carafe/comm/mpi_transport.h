// Ranks as processes under MPI. Loads the plug-in of the MPI that the launcher belongs to; the
// library links no MPI.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "carafe/comm/launcher.h"
#include "carafe/comm/transport.h"

namespace carafe {

// The plug-in file in the first folder that has it; throws ConfigError with the packages to install
// if none has.
std::string FindMpiPlugin(const Launch& launch, const std::vector<std::string>& folders);

// Whether this build has the plug-in of "openmpi" or "mpich".
bool HasMpiPlugin(const std::string& mpi);

// To be called on the communication thread. Throws ConfigError when the plug-in is missing, cannot
// be loaded, or counts another number of ranks than the launcher.
std::unique_ptr<Transport> MakeMpiTransport(const Launch& launch);

// While another thread is inside of that: asks the launcher to end every rank, and ends this
// process where there is a way to ask; else returns.
void AbortStart(const Launch& launch);

}  // namespace carafe
