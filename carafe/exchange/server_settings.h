// How the stale server (stale_server.cpp) applies updates and sends them.
#pragma once

namespace carafe {

// Who runs the update rule. The order is that of --server_update.
enum class ServerUpdate {
  kClock,    // the owner of a shard, once for each clock, when the gradients of all ranks are there
  kArrival,  // every rank, on its own gradient; the owner adds the change when it arrives
};

// What kArrival makes of the changes of all ranks. The order is that of --combine.
enum class Combine { kMean, kSum };

// When values and updates are sent. The order is that of --consistency.
enum class Consistency {
  kPush,     // as soon as they are there, what the next forward pass reads first
  kManaged,  // within a bandwidth, in the order that SendOrder gives
};

// Which updates leave first under kManaged. The order is that of --send_order.
enum class SendOrder {
  kFifo,
  kRandom,
  kRelativeMagnitude,  // the largest |update| / |value| of a message
  kFifoThenMagnitude,  // the oldest clock, and within it as kRelativeMagnitude
};

struct ServerSettings {
  ServerUpdate update = ServerUpdate::kClock;
  Combine combine = Combine::kMean;
  Consistency consistency = Consistency::kPush;
  SendOrder order = SendOrder::kFifo;
  double bandwidth_mbps = 0;  // that a rank sends, in 10^6 bits per second; 0: no limit

  bool operator==(const ServerSettings&) const = default;
};

}  // namespace carafe
