// Ranks of one host talk through memory that they share, and read each other's shareable memory
// (core/shareable_memory.h) where it lies; with ranks of other hosts, and where
// memory cannot be shared, they talk through another transport.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "carafe/comm/shm_segment.h"
#include "carafe/comm/transport.h"

namespace carafe {

struct ShmOptions {
  double wait = 300;     // seconds for the other ranks to come
  std::string identity;  // see HostIdentity; ranks of equal ones share memory
  std::function<ShmSegment(size_t bytes)> make = ShmSegment::Make;
};

// A collective call, on the thread that uses the transport. Returns `inner` itself where no other
// rank has this one's identity. If memory cannot be shared with all of them, a warning says why,
// once a host, and they talk through `inner`. The memory has no name: nothing is left behind.
std::unique_ptr<Transport> WithSharedMemory(std::unique_ptr<Transport> inner,
                                            const ShmOptions& options);

}  // namespace carafe
