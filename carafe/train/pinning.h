// --pin: every rank keeps to a share of its host's cores.
#pragma once

#include <string>
#include <vector>

#include "carafe/comm/group.h"

namespace carafe {

struct RankCores {
  std::string host;
  std::vector<int> cores;  // that the rank may use, by number, rising
};

// By rank: the cores that it is to use. Of L ranks of a host that all have the same C cores,
// the l-th takes number l*C/L up to (l+1)*C/L of them, or core l mod C where ranks outnumber cores.
// Ranks of a host keep what they have if the launcher has given them different cores.
std::vector<std::vector<int>> SharesOfCores(const std::vector<RankCores>& ranks);

// For the log: what SharesOfCores has done.
std::string DescribePins(const std::vector<RankCores>& ranks,
                         const std::vector<std::vector<int>>& shares);

// "0-3,8": cores as taskset writes them.
std::string CoreList(const std::vector<int>& cores);

// A collective call, before worker threads are started, for those inherit it. Threads that run
// already (that of the communication) are pinned as well. Rank 0 says in the log what was done.
// Throws Error on all ranks alike where the system refuses.
void PinRanks(Group& group);

}  // namespace carafe
