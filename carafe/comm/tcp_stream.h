// Messages over one connection. Each is a header (tag and size) and its content, which goes from
// the sender's memory to the kernel and from there to the receiver's memory without a copy in
// between.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "carafe/comm/mailbox.h"

namespace carafe {

// Called by a stream, from inside its methods.
class StreamEvents {
 public:
  virtual ~StreamEvents() = default;
  virtual void OnDone(uint64_t request) = 0;
  virtual void OnFailed(uint64_t request, const std::string& error) = 0;
};

// Single-threaded. The memory of a send or receive belongs to the stream until OnDone or OnFailed.
class TcpStream {
 public:
  // The socket is non-blocking, and outlives the stream. `peer` appears in error messages.
  TcpStream(int socket, int rank, int peer, StreamEvents& events)
      : socket_(socket), rank_(rank), peer_(peer), events_(events) {}

  void Send(uint64_t request, int tag, const void* data, size_t bytes);  // queues; see Flush
  void Receive(const PendingReceive& receive);
  void Flush();  // sends as much as the kernel takes
  void Read();   // reads as much as has arrived

  int socket() const { return socket_; }
  const std::string& broken() const { return broken_; }  // why the connection ended, or ""
  bool blocked() const { return blocked_; }              // the kernel takes nothing more for now
  // The next message has no receive yet, but may get one in a moment: call Read again.
  bool stalled() const { return stalled_; }
  uint64_t bytes_sent() const { return bytes_sent_; }
  uint64_t bytes_received() const { return bytes_received_; }

 private:
  static constexpr size_t kStagingBytes = 4096;
  static constexpr size_t kMaxVectors = 16;  // of one system call
  struct Header {
    int32_t tag = 0;
    uint32_t magic = kMagic;  // a stream that is out of step has another value here
    uint64_t bytes = 0;
    static constexpr uint32_t kMagic = 0xCA4AFE01;
  };
  static_assert(sizeof(Header) == 16);
  struct Outgoing {
    uint64_t request;
    Header header;
    const char* data;
    size_t sent;  // bytes of the header and the content
    size_t size() const { return sizeof(Header) + header.bytes; }
  };
  struct Message {  // arrived before its receive
    int tag;
    std::vector<char> content;
  };

  void Break(const std::string& why);
  std::string Lost(int error) const;
  void OnSent(size_t bytes);
  bool Distribute(bool* delivered);
  bool BeginMessage();
  bool ChooseReceive();
  void ReceiveAside();
  void CompleteMessage();
  void Deliver(const PendingReceive& receive, const std::vector<char>& content);
  void Fail(const PendingReceive& receive, size_t bytes);

  // Constant after construction.
  const int socket_;
  const int rank_;
  const int peer_;
  StreamEvents& events_;

  std::string broken_;
  std::deque<Outgoing> outgoing_;
  bool blocked_ = false;
  uint64_t bytes_sent_ = 0;
  uint64_t bytes_received_ = 0;

  Mailbox<Message> mailbox_;
  std::array<char, kStagingBytes> staging_;  // bytes read beyond the content of a message
  size_t staging_begin_ = 0, staging_end_ = 0;
  bool stalled_ = false;
  // The message that is being read.
  bool in_message_ = false;  // its header has been read
  bool has_place_ = false;   // `place_` is known
  bool rejected_ = false;    // its size is wrong, and its receive has failed
  Header header_;
  PendingReceive receive_;   // request 0: none yet
  std::vector<char> aside_;  // the content of a message without a receive
  char* place_ = nullptr;    // where the content goes
  size_t received_ = 0;      // bytes of the content
};

}  // namespace carafe
