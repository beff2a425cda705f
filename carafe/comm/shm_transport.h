// Ranks of one host send through memory that they share, and read each other's shareable memory
// (core/shareable_memory.h) where it is. Messages to other hosts, and all messages where memory
// cannot be shared, go through another transport.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "carafe/comm/shm_segment.h"
#include "carafe/comm/transport.h"

namespace carafe {

struct ShmOptions {
  double wait = 300;     // seconds for the other ranks to come
  std::string identity;  // see HostIdentity; ranks with equal ones share memory
  std::function<ShmSegment(size_t bytes)> make = ShmSegment::Make;
};

// A collective call, on the thread that uses the transport. Returns `inner` itself if no other rank
// has this one's identity, or if memory cannot be shared with all that have; then a warning gives
// the reason, once per host.
std::unique_ptr<Transport> WithSharedMemory(std::unique_ptr<Transport> inner,
                                            const ShmOptions& options);

}  // namespace carafe
