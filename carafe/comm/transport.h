// Moves bytes between ranks, and knows no net. One implementation per way: threads of one process
// (thread_transport.h), memory that processes share (shm_transport.h), TCP sockets
// (tcp_transport.h) and MPI (mpi_transport.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "carafe/base/error.h"

namespace carafe {

// Waits until a transport has something to do. By any thread at any time, several at once.
class Sleeper {
 public:
  virtual ~Sleeper() = default;
  // After a poll that moved nothing: until that may have changed, the time is over, or somebody
  // calls WakeUp.
  virtual void Sleep(double seconds) = 0;
  virtual void WakeUp() = 0;
  // Seconds for which what is under way lasts: whoever looks earlier finds little to do.
  virtual double Rest() const = 0;
};

// Made, used and destroyed by one thread only: the communication thread of its rank. Where
// any_thread() holds, another thread may use it in between, one at a time.
//
// A message goes to the oldest receive of the same (from, tag); messages of one (from, tag) arrive
// in the order in which they were sent. Its size must be the one that the receive expects: anything
// else is a CommError. One message has at most kMaxBytes; callers cut what is longer.
class Transport {
 public:
  // A send or receive under way. 0 is none, and done.
  using Request = uint64_t;
  static constexpr size_t kMaxBytes = (size_t{1} << 30) - 1;  // under 1 GiB

  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const std::string& host() const = 0;
  virtual std::string way() const { return "messages"; }  // what carries them, for the log

  // Both return at once; the memory belongs to the transport until the request is done.
  virtual Request Send(int to, int tag, const void* data, size_t bytes) = 0;
  virtual Request Receive(int from, int tag, void* data, size_t bytes) = 0;
  // Moves what can be moved, and says whether this request is done; a done request is forgotten
  // and must not be asked about again. Throws CommError when the message failed.
  virtual bool Done(Request request) = 0;
  // Whether a request has become done since the last call that nobody may have been told about yet.
  virtual bool TakeNews() { return false; }
  virtual bool any_thread() const { return false; }
  // Null: nothing tells when a message comes, and whoever waits has to look.
  virtual std::shared_ptr<Sleeper> sleeper() const { return nullptr; }

  // Whether a send to this rank may be done while its bytes still wait on this side of the network,
  // where nothing that follows can pass them.
  virtual bool BuffersSends(int /*peer*/) const { return false; }

  // Up to so many bytes, what belongs together is better sent to this rank as one message, even if
  // it has to be copied, than as two. 0: messages cost little.
  virtual size_t ShortMessage(int /*peer*/) const { return 0; }
  // A receive of a message of any size up to `most`, which is at most ShortMessage(from); its size
  // is in `got` when the request is done.
  virtual Request ReceiveShort(int /*from*/, int /*tag*/, void* /*data*/, size_t /*most*/,
                               size_t* /*got*/) {
    throw InternalError("a transport that has no short messages was asked for one");
  }

  // A receive that is not copied: where CanLend, once Borrow's request is done, Lent is the content
  // until Return, which forgets the request. The lender may have to wait for that.
  virtual bool CanLend(int /*from*/, size_t /*bytes*/) const { return false; }
  virtual Request Borrow(int /*from*/, int /*tag*/, size_t /*bytes*/) { return 0; }
  virtual const void* Lent(Request) const { return nullptr; }
  virtual void Return(Request) {}

  // Other ranks of this host read what is sent to them where it lies, if it is shareable
  // (core/shareable_memory.h).
  virtual bool shares_memory() const { return false; }

  // Leaves the group in good order; every rank calls it, with no request open. A transport that is
  // destroyed without it is a rank that has died.
  virtual void Finish() = 0;
  // Asks the launcher to end every rank at once, this one too: the last resort. Does nothing where
  // there is no launcher.
  virtual void Abort(const std::string& message) noexcept = 0;
};

}  // namespace carafe
