// Ends what is left of a job whose mpirun does not end by itself.
#pragma once

#include <sys/types.h>
#include <string>
#include <vector>

namespace carafe {

// Ends mpirun, then every process of this host and of `hosts` that has `key` in its environment:
// the ranks and MPI's daemons. Other hosts are reached through the remote shell that mpirun uses;
// one that does not answer within 5 s is passed over.
void EndJob(pid_t mpirun, const std::string& key, const std::vector<std::string>& hosts);

// The second half of it: for a job whose mpirun has ended.
void EndLeftovers(const std::string& key, const std::vector<std::string>& hosts);

// Those of `hosts` that run a command within 10 s; this host always does.
std::vector<std::string> AnsweringHosts(const std::vector<std::string>& hosts);

}  // namespace carafe
