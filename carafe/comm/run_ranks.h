// Runs a function on n ranks that are threads of this process: the test bed of everything
// distributed.
#pragma once

#include <functional>
#include <memory>

#include "carafe/comm/group.h"
#include "carafe/comm/transport.h"

namespace carafe {

// Wraps the transport between the threads in another one.
using RankLink = std::function<std::unique_ptr<Transport>(std::unique_ptr<Transport>)>;
std::unique_ptr<Transport> ThroughSharedMemory(std::unique_ptr<Transport> threads);
std::unique_ptr<Transport> ThroughSockets(std::unique_ptr<Transport> threads);

// Each rank gets its group, with its communication thread (none if n is 1). A rank that
// throws fails the group, so the others end too; when all have ended, the exception of the rank
// that failed first is rethrown.
void RunRanks(int n, const std::function<void(Group&)>& rank_main,
              const CommTimeouts& timeouts = {}, const RankLink& link = {});

// The same with bare transports, each used by the thread of its rank. Ranks that wait for one that
// has thrown get a CommError.
void RunTransports(int n, const std::function<void(Transport&)>& rank_main);

}  // namespace carafe
