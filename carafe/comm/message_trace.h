// Records the messages that a rank sends and receives for its work; control messages such as
// heartbeats are not recorded.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "carafe/comm/transport.h"

namespace carafe {

struct MessageEvent {
  bool sent = false;  // else received
  int peer = 0;
  int tag = 0;
  size_t bytes = 0;
  double begin = 0, end = 0;  // TraceClock(): given to the transport, and seen to be done
};

// Called on the communication thread.
class MessageTrace {
 public:
  virtual ~MessageTrace() = default;
  virtual void Message(const MessageEvent& event) = 0;
};

// Sums since the start; written by the communication thread, read by any.
struct MessageCounters {
  std::atomic<int64_t> bytes_sent{0}, bytes_received{0};
  std::atomic<double> busy_seconds{0};  // with at least one send in progress
};

// Seconds of this host's steady clock: the same for all threads of a process.
double TraceClock();

// A decorator of `inner`, which outlives it, that records its messages. Requests are those of
// `inner`, so recording may begin and end while `inner` is in use. The pointers outlive it too;
// `trace` may be null.
std::unique_ptr<Transport> WatchMessages(Transport& inner, MessageTrace* trace,
                                         MessageCounters* counters);

}  // namespace carafe
