// Ranks of different hosts talk through TCP sockets of their own, which they find with the help of
// another transport; with ranks of the same host, and where a socket cannot be had, they talk
// through that one.
//
// Why not through MPI, which speaks TCP as well: there every byte is copied twice more on either
// side, and whoever waits has to look, for MPI cannot be waited for (decision 48).
#pragma once

#include <memory>
#include <string>

#include "carafe/comm/tcp_sockets.h"
#include "carafe/comm/transport.h"

namespace carafe {

// A collective call, on the thread that uses the transport. Returns `inner` itself where all ranks
// have one identity or one of them does not want sockets. If one cannot reach another, a warning
// says who and why, once, and all talk through `inner`.
std::unique_ptr<Transport> WithSockets(std::unique_ptr<Transport> inner,
                                       const SocketOptions& options);

}  // namespace carafe
