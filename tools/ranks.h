// Runs a command's body on every rank of the launcher, and makes the exit code of the job.
#pragma once

#include <functional>

#include "carafe/comm/group.h"

namespace carafe {

// `body` returns the exit code. An exception is printed once, by the rank that the group chooses,
// and gives 1.
int RunOnRanks(const CommTimeouts& timeouts, const std::function<int(Group&)>& body);

}  // namespace carafe
