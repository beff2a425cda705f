#include "carafe/comm/tcp_transport.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/log.h"
#include "carafe/comm/pace.h"
#include "carafe/comm/socket_sleeper.h"
#include "carafe/comm/tags.h"
#include "carafe/comm/tcp_stream.h"

namespace carafe {
namespace {

constexpr double kLinger = 0.5;  // seconds, at the end, for what the others still send
constexpr double kShortestRest = 5e-5, kLongestRest = 7e-4;  // seconds

class TcpTransport final : public Transport, private StreamEvents {
 public:
  TcpTransport(std::unique_ptr<Transport> inner, Sockets sockets)
      : inner_(std::move(inner)),
        sockets_(std::move(sockets)),
        sleeper_(std::make_shared<SocketSleeper>()),
        stream_of_(static_cast<size_t>(inner_->size())) {
    for (int r = 0; r < inner_->size(); ++r) {
      if (sockets_[r] < 0) continue;
      auto& stream = stream_of_[static_cast<size_t>(r)];
      StreamEvents& events = *this;
      stream = std::make_unique<TcpStream>(sockets_[r], inner_->rank(), r, events);
      streams_.push_back({stream.get(), static_cast<uint32_t>(streams_.size())});
      room_ += static_cast<double>(SendRoom(sockets_[r]));
      sleeper_->Add(sockets_[r], streams_.back().who);
    }
  }
  // A socket that is closed with something unread resets the connection, and the peer may lose what
  // this rank said last.
  ~TcpTransport() override {
    for (const Watched& watched : streams_) shutdown(watched.stream->socket(), SHUT_WR);
    const double end = Now() + kLinger;
    for (const Watched& watched : streams_)
      while (watched.stream->broken().empty() && Now() < end) {
        char unread[4096];
        const ssize_t n = recv(watched.stream->socket(), unread, sizeof unread, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) break;
        if (n < 0) usleep(200);
      }
  }

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const std::string& host() const override { return inner_->host(); }
  std::string way() const override { return "TCP sockets"; }

  Request Send(int to, int tag, const void* data, size_t bytes) override {
    TcpStream* stream = StreamOf(to);
    if (!stream) return inner_->Send(to, tag, data, bytes);
    Ensure(bytes <= kMaxBytes, "a message that is too long");
    const Request request = Begin(stream, 0);
    stream->Send(request, tag, data, bytes);
    return request;
  }
  Request Receive(int from, int tag, void* data, size_t bytes) override {
    TcpStream* stream = StreamOf(from);
    if (!stream) return inner_->Receive(from, tag, data, bytes);
    Ensure(bytes <= kMaxBytes, "a receive that is too long");
    const Request request = Begin(stream, tag);
    stream->Receive(request, tag, data, bytes);
    return request;
  }
  // One look at all sockets answers a question about every request; the next follows when one is
  // asked about again.
  bool Done(Request request) override {
    if (request == 0) return true;
    if (!(request & kOurs)) return inner_->Done(request);
    if (const Open& open = OpenOf(request); !open.done && open.asked == looks_) Look();
    Open& open = OpenOf(request);
    open.asked = looks_;
    if (!open.error.empty()) throw CommError(open.error, "");
    if (open.done) {
      unused_.push_back(request & ~kOurs);
      return true;
    }
    // Other work that waits for that rank in vain ends with the group, which is told by this.
    if (open.tag == kControlTag && !open.stream->broken().empty())
      throw CommError(open.stream->broken(), "");
    return false;
  }
  bool TakeNews() override { return std::exchange(news_, false); }
  bool any_thread() const override { return inner_->any_thread(); }
  std::shared_ptr<Sleeper> sleeper() const override {
    return static_cast<int>(streams_.size()) + 1 == size() ? sleeper_ : nullptr;
  }
  bool BuffersSends(int peer) const override {
    return !StreamOf(peer) && inner_->BuffersSends(peer);
  }
  size_t ShortMessage(int peer) const override {
    return StreamOf(peer) ? 0 : inner_->ShortMessage(peer);
  }
  Request ReceiveShort(int from, int tag, void* data, size_t most, size_t* got) override {
    Ensure(!StreamOf(from), "a short message through a socket");
    return inner_->ReceiveShort(from, tag, data, most, got);
  }
  void Finish() override { inner_->Finish(); }
  void Abort(const std::string& message) noexcept override { inner_->Abort(message); }

 private:
  static constexpr Request kOurs = Request{1} << 62;
  struct Watched {
    TcpStream* stream;
    uint32_t who;          // its place
    bool blocked = false;  // as the sleeper knows it
    bool removed = false;  // from the sleeper
  };
  struct Open {
    const TcpStream* stream = nullptr;
    int tag = 0;         // of a receive
    uint64_t asked = 0;  // after so many looks
    bool done = false;
    std::string error;
  };

  TcpStream* StreamOf(int rank) const {
    Ensure(rank >= 0 && rank < size(), "a message to nowhere");
    return stream_of_[static_cast<size_t>(rank)].get();
  }
  Open& OpenOf(Request request) { return open_[(request & ~kOurs) - 1]; }
  Request Begin(const TcpStream* stream, int tag) {
    if (unused_.empty()) {
      open_.emplace_back();
      unused_.push_back(open_.size());
    }
    const Request request = unused_.back() | kOurs;
    unused_.pop_back();
    OpenOf(request) = {.stream = stream, .tag = tag};
    return request;
  }
  void OnDone(uint64_t request) override { OpenOf(request).done = news_ = true; }
  void OnRefused(uint64_t request, const std::string& why) override {
    OpenOf(request).error = why;
    news_ = true;
  }

  // Sends and reads what can be.
  void Look() {
    ++looks_;
    for (Watched& watched : streams_) {
      if (!watched.blocked) watched.stream->Flush();
      if (watched.stream->stalled()) watched.stream->Read();
      Heed(watched);
    }
    std::array<epoll_event, 64> room;
    for (const epoll_event& event : sleeper_->Look(room)) {
      if (event.data.u32 == SocketSleeper::kBell) {
        sleeper_->Silence();
        continue;
      }
      Watched& watched = streams_[event.data.u32];
      if (event.events & EPOLLOUT) watched.stream->Flush();
      if (event.events & ~uint32_t{EPOLLOUT}) watched.stream->Read();
      Heed(watched);
    }
    NoteRate();
  }
  // The sleeper is told for what to wait.
  void Heed(Watched& watched) {
    const TcpStream& stream = *watched.stream;
    if (!stream.broken().empty()) {
      if (!std::exchange(watched.removed, true)) sleeper_->Remove(stream.socket());
    } else if (stream.blocked() != watched.blocked) {
      sleeper_->Change(stream.socket(), watched.who,
                       stream.blocked() ? EPOLLIN | EPOLLOUT : EPOLLIN);
    }
    watched.blocked = stream.blocked();
  }
  // Half of what the sockets hold, of the faster direction: the line does not run dry.
  void NoteRate() {
    uint64_t sent = 0;
    uint64_t received = 0;
    bool waiting = false;
    for (const Watched& watched : streams_) {
      sent += watched.stream->bytes_sent();
      received += watched.stream->bytes_received();
      waiting |= watched.blocked;
    }
    const double now = Now();
    sending_.Note(now, sent, waiting);
    receiving_.Note(now, received, received > std::exchange(received_, received));
    const double rate = std::max(sending_.rate(), receiving_.rate());
    if (rate > 0) sleeper_->SetRest(std::clamp(0.5 * room_ / rate, kShortestRest, kLongestRest));
  }

  const std::unique_ptr<Transport> inner_;
  const Sockets sockets_;
  const std::shared_ptr<SocketSleeper> sleeper_;
  std::vector<std::unique_ptr<TcpStream>> stream_of_;  // by rank; null: through inner_
  std::vector<Watched> streams_;                       // those that there are
  std::vector<Open> open_;                             // request - 1
  std::vector<Request> unused_;
  uint64_t looks_ = 1;
  bool news_ = false;
  double room_ = 0;        // bytes that all sockets take before they block
  uint64_t received_ = 0;  // bytes, at the last look
  LineRate sending_, receiving_;
};

}  // namespace

std::unique_ptr<Transport> WithSockets(std::unique_ptr<Transport> inner,
                                       const SocketOptions& options) {
  auto [sockets, problem] = ConnectHosts(*inner, options);
  if (!problem.empty() && inner->rank() == 0)
    LogWarning("between hosts MPI carries everything, which is slower than sockets: {}", problem);
  for (int r = 0; r < inner->size(); ++r)
    if (sockets[r] >= 0)
      return std::make_unique<TcpTransport>(std::move(inner), std::move(sockets));
  return inner;
}

}  // namespace carafe
