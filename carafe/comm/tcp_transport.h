// Ranks of different hosts send through TCP sockets, which they open with the help of another
// transport. Messages to ranks of the same host, and all messages if a socket cannot be opened, go
// through that one.
//
// MPI uses TCP as well, but copies every byte twice more on either side, and has no call that waits
// for a message without polling (decision 48).
#pragma once

#include <memory>
#include <string>

#include "carafe/comm/tcp_sockets.h"
#include "carafe/comm/transport.h"

namespace carafe {

// A collective call, on the thread that uses the transport. Returns `inner` itself if all ranks
// have the same identity, if one of them does not want sockets, or if one cannot reach another;
// then one rank logs a warning with the reason.
std::unique_ptr<Transport> WithSockets(std::unique_ptr<Transport> inner,
                                       const SocketOptions& options);

}  // namespace carafe
