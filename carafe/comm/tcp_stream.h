// Messages over one connection: each is a frame (tag and size) and its content, which goes from the
// sender's memory to the system and from there to the receiver's place without a copy in between.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace carafe {

// Told by a stream, from inside its methods.
class StreamEvents {
 public:
  virtual ~StreamEvents() = default;
  virtual void OnDone(uint64_t request) = 0;
  virtual void OnRefused(uint64_t request, const std::string& why) = 0;
};

// Single-threaded. Memory of a send or receive is lent until OnDone or OnRefused.
class TcpStream {
 public:
  // The socket does not block, and outlives the stream. `peer` is for messages.
  TcpStream(int socket, int rank, int peer, StreamEvents& events)
      : socket_(socket), rank_(rank), peer_(peer), events_(events) {}

  // Leaves in Flush.
  void Send(uint64_t request, int tag, const void* data, size_t bytes);
  void Receive(uint64_t request, int tag, void* data, size_t bytes);
  void Flush();  // as much as the system takes
  void Read();   // as much as has come

  int socket() const { return socket_; }
  const std::string& broken() const { return broken_; }  // why nothing moves any more, or ""
  bool blocked() const { return blocked_; }              // the system takes nothing more for now
  // A message has come that somebody may want in a moment: Read once more.
  bool stalled() const { return stalled_; }
  uint64_t bytes_sent() const { return bytes_sent_; }
  uint64_t bytes_received() const { return bytes_received_; }

 private:
  static constexpr size_t kStage = 4096;
  static constexpr size_t kMostVectors = 16;  // of one system call
  struct Frame {
    int32_t tag = 0;
    uint32_t check = kCheck;  // a stream that lost its way has another
    uint64_t bytes = 0;
    static constexpr uint32_t kCheck = 0xCA4AFE01;
  };
  static_assert(sizeof(Frame) == 16);
  struct Outgoing {
    uint64_t request;
    Frame frame;
    const char* data;
    size_t sent;  // of the frame and the content
    size_t size() const { return sizeof(Frame) + frame.bytes; }
  };
  struct Wanted {
    uint64_t request = 0;
    int tag = 0;
    char* data = nullptr;
    size_t bytes = 0;
  };
  struct Held {  // has come before anybody wanted it
    int tag;
    std::vector<char> content;
  };

  void Break(const std::string& why);
  std::string Lost(int error) const;
  void Sent(size_t bytes);
  bool Sort(bool* delivered);
  bool BeginFrame();
  bool Place();
  void PlaceAside();
  void Complete();
  void Deliver(const Wanted& wanted, const std::vector<char>& content);
  void Refuse(const Wanted& wanted, size_t bytes);
  std::deque<Wanted>::iterator FindWanted(int tag);

  const int socket_;
  const int rank_;
  const int peer_;
  StreamEvents& events_;
  std::string broken_;

  std::deque<Outgoing> outgoing_;
  bool blocked_ = false;
  uint64_t bytes_sent_ = 0;
  uint64_t bytes_received_ = 0;

  std::deque<Wanted> wanted_;
  std::deque<Held> held_;
  std::array<char, kStage> stage_;  // what was read beyond the content that is awaited
  size_t stage_begin_ = 0, stage_end_ = 0;
  bool stalled_ = false;
  // The message that is being read.
  bool in_frame_ = false;  // there is one
  bool placed_ = false;    // and it is known where its content goes
  bool refused_ = false;   // and nobody will get it
  Frame frame_;
  Wanted taker_;             // request 0: none yet
  std::vector<char> aside_;  // the content, if there is no taker
  char* place_ = nullptr;    // of the content
  size_t got_ = 0;           // of it
};

}  // namespace carafe
