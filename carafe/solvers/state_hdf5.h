// The HDF5 form of a .solverstate; see state_file.h.
#pragma once

#include <string>

#include "carafe/solvers/state_file.h"

namespace carafe {

StateFile OpenHdf5State(const std::string& path);
StateFileFacts ReadHdf5Facts(const std::string& path);

template <typename T>
void WriteHdf5State(const std::string& path, const StateHead& head, const WriteTensors<T>& write);

}  // namespace carafe
