// Lists of hosts, in the forms in which Caffe's distributed descendants and the MPIs write them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace carafe {

struct HostSlots {
  std::string host;
  int slots = 1;  // ranks that it takes

  bool operator==(const HostSlots&) const = default;
};

// "a:2,b:2,c": a host without a number takes one rank. Throws ConfigError.
std::vector<HostSlots> ParseHostList(std::string_view text);

// One host per line:
//   host                   machine files of MPICH and CaffeGPI; a host named twice takes two ranks
//   host:4                 MPICH, MVAPICH2, Caffe-MPI
//   host slots=4           Open MPI; further settings of that line have no effect here
//   0 10.0.0.1 9999        PMLS-Caffe: id, address, port; ids count from 0, the order is theirs
// Blank lines and what follows a # are left out. `name` is the file's, for errors. Throws
// ConfigError with the line.
std::vector<HostSlots> ParseHostFile(std::string_view text, const std::string& name);
std::vector<HostSlots> ReadHostFile(const std::string& path);

// In the form of "openmpi" (host slots=2) or "mpich" (host:2), one host per line.
std::string HostFileText(const std::vector<HostSlots>& hosts, std::string_view mpi);

int TotalSlots(const std::vector<HostSlots>& hosts);

}  // namespace carafe
