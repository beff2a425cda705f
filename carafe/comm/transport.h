// Moves bytes between ranks, and knows nothing of nets. Implementations: threads of one process
// (thread_transport.h), shared memory (shm_transport.h), TCP sockets (tcp_transport.h), MPI
// (mpi_transport.h) and simulated time (sim_transport.h).
//
// Everything that a transport can do beyond sending and receiving is in TransportCapabilities,
// which its constructor must give, and in LinkTraits. There are no optional virtual functions with
// defaults, so a decorator cannot forget one (transport_decorator.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace carafe {

using TransportRequest = uint64_t;  // a send or receive in progress; 0 is none, and done

// Blocks threads until a transport has something to do. Any thread, at any time, several at once.
class Waiter {
 public:
  virtual ~Waiter() = default;
  // Call it after a poll that moved nothing. Returns when a poll may move something, when `seconds`
  // are over, or after Wake().
  virtual void Wait(double seconds) = 0;
  virtual void Wake() = 0;
  // Seconds until a poll is likely to move something, at the current speed of the network.
  virtual double poll_interval() const = 0;
};

// Receives whose size only the sender knows, for peers with LinkTraits::short_message_bytes > 0.
class ShortMessages {
 public:
  virtual ~ShortMessages() = default;
  // A receive of a message of up to `max_bytes`, which is at most short_message_bytes. Its size is
  // in `received` when the request is done.
  virtual TransportRequest ReceiveUpTo(int from, int tag, void* data, size_t max_bytes,
                                       size_t* received) = 0;
};

// Receives without a copy: the content is read where the transport has it.
class ZeroCopy {
 public:
  virtual ~ZeroCopy() = default;
  // Whether ReceiveView is possible now for a message of this size.
  virtual bool CanView(int from, size_t bytes) const = 0;
  virtual TransportRequest ReceiveView(int from, int tag, size_t bytes) = 0;
  // The content, once the request is done and until ReleaseView, which ends the request. The
  // sender may have to wait for that.
  virtual const void* view(TransportRequest request) const = 0;
  virtual void ReleaseView(TransportRequest request) = 0;
};

// What a transport can do, constant after its construction. The objects live as long as the
// transport, and follow its thread rule unless they say otherwise.
struct TransportCapabilities {
  std::string backend;                      // what carries the messages, for the log
  bool any_thread = false;                  // any thread may use it, one at a time
  bool shares_memory = false;               // other ranks of this host read shareable memory
                                            // (core/shareable_memory.h) where it is
  ShortMessages* short_messages = nullptr;  // null: no peer has them
  ZeroCopy* zero_copy = nullptr;            // null: every receive copies
  std::shared_ptr<Waiter> waiter;           // null: nothing signals a message, so poll
};

// Properties of the connection to one peer.
struct LinkTraits {
  // A send can complete before its bytes leave this host; nothing sent later overtakes them.
  bool buffers_sends = false;
  // Up to this many bytes, one message with a copied content is faster than a header and a message
  // without a copy. 0: messages cost little.
  size_t short_message_bytes = 0;
  // Send and Receive take memory of a device (core/device.h). If not, the caller stages it in
  // memory of the host.
  bool device_memory = false;
};

// The rank that a transport is, and where.
struct RankIdentity {
  int rank = 0;
  int size = 1;
  std::string host;
};

// Made, used and destroyed by one thread only: the communication thread of its rank. If
// capabilities().any_thread, other threads may use it in between, one at a time.
//
// A message goes to the oldest receive of the same (from, tag); messages of one (from, tag) arrive
// in the order in which they were sent. Its size must be the one that the receive expects: anything
// else is a CommError. One message has at most kMaxBytes; callers split what is longer.
class Transport {
 public:
  using Request = TransportRequest;
  static constexpr size_t kMaxBytes = (size_t{1} << 30) - 1;  // under 1 GiB

  Transport(RankIdentity identity, TransportCapabilities capabilities)
      : identity_(std::move(identity)), capabilities_(std::move(capabilities)) {}
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  int rank() const { return identity_.rank; }
  int size() const { return identity_.size; }
  const std::string& host() const { return identity_.host; }
  const RankIdentity& identity() const { return identity_; }
  const TransportCapabilities& capabilities() const { return capabilities_; }
  virtual LinkTraits link(int peer) const = 0;

  // Both return at once; the memory belongs to the transport until the request is done.
  virtual Request Send(int to, int tag, const void* data, size_t bytes) = 0;
  virtual Request Receive(int from, int tag, void* data, size_t bytes) = 0;
  // Moves what can be moved, and returns whether this request is done. A done request is forgotten
  // and must not be asked about again. Throws CommError if the message failed.
  virtual bool Done(Request request) = 0;
  // Whether any request has completed since the last call, as far as the transport knows: moving
  // the bytes of one request can complete others.
  virtual bool TakeCompletions() = 0;

  // Leaves the group; every rank calls it, with no request open. A transport that is destroyed
  // without it counts as a rank that has died.
  virtual void Finish() = 0;
  // Asks the launcher to end every rank at once, this one too: the last resort. Does nothing if
  // there is no launcher.
  virtual void Abort(const std::string& message) noexcept = 0;

 private:
  const RankIdentity identity_;
  const TransportCapabilities capabilities_;
};

}  // namespace carafe
