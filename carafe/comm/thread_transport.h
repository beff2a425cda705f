// Ranks as threads of one process: what tests use instead of machines. Behaves like MPI where that
// matters: small messages are copied at once, large ones wait for their receiver.
#pragma once

#include <memory>

#include "carafe/comm/transport.h"

namespace carafe {

// What the ranks of one group share. Safe from any thread; lives as long as any of its transports.
class ThreadHub;

std::shared_ptr<ThreadHub> MakeThreadHub(int size);

// Rank `rank` of the hub; at most one transport per rank. Destroying it without Finish() makes this
// rank dead: requests of others that wait for it throw CommError.
std::unique_ptr<Transport> MakeThreadTransport(std::shared_ptr<ThreadHub> hub, int rank);

}  // namespace carafe
