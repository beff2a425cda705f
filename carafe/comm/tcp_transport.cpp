#include "carafe/comm/tcp_transport.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/base/log.h"
#include "carafe/comm/clock.h"
#include "carafe/comm/request_table.h"
#include "carafe/comm/socket_waiter.h"
#include "carafe/comm/tags.h"
#include "carafe/comm/tcp_connection.h"
#include "carafe/comm/tcp_stream.h"
#include "carafe/comm/transport_decorator.h"

namespace carafe {
namespace {

constexpr double kLinger = 0.5;  // seconds, at the end, for what the others still send
constexpr double kMinPollInterval = 5e-5, kMaxPollInterval = 7e-4;  // seconds

TransportCapabilities CapabilitiesOver(const Transport& inner, const Sockets& sockets,
                                       std::shared_ptr<Waiter> waiter) {
  TransportCapabilities capabilities = inner.capabilities();
  capabilities.backend = "TCP sockets";
  bool all_sockets = true;
  for (int r = 0; r < inner.size(); ++r) all_sockets &= r == inner.rank() || sockets[r] >= 0;
  // A message through the inner transport would not end a wait for the sockets.
  capabilities.waiter = all_sockets ? std::move(waiter) : nullptr;
  return capabilities;
}

class TcpTransport final : public TransportDecorator, private StreamEvents {
 public:
  TcpTransport(std::unique_ptr<Transport>&& inner, Sockets sockets,
               std::shared_ptr<SocketWaiter> waiter)
      : TransportDecorator(std::move(inner), CapabilitiesOver(*inner, sockets, waiter)),
        sockets_(std::move(sockets)),
        waiter_(std::move(waiter)),
        stream_of_(static_cast<size_t>(size())) {
    StreamEvents& events = *this;
    for (int r = 0; r < size(); ++r) {
      if (sockets_[r] < 0) continue;
      At(stream_of_, r) = std::make_unique<TcpStream>(sockets_[r], rank(), r, events);
      streams_.push_back({At(stream_of_, r).get(), static_cast<uint32_t>(streams_.size())});
      buffer_bytes_ += static_cast<double>(SendBufferBytes(sockets_[r]));
      waiter_->Add(sockets_[r], streams_.back().id);
    }
  }
  // A socket that is closed with something unread resets the connection, and the peer may lose the
  // last messages of this rank.
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

  LinkTraits link(int peer) const override {
    return StreamOf(peer) ? LinkTraits{} : inner().link(peer);
  }
  Request Send(int to, int tag, const void* data, size_t bytes) override {
    TcpStream* stream = StreamOf(to);
    if (!stream) return inner().Send(to, tag, data, bytes);
    Ensure(bytes <= kMaxBytes, "a message that is too long");
    const Request request = requests_.Begin({.stream = stream});
    stream->Send(request, tag, data, bytes);
    return request;
  }
  Request Receive(int from, int tag, void* data, size_t bytes) override {
    TcpStream* stream = StreamOf(from);
    if (!stream) return inner().Receive(from, tag, data, bytes);
    Ensure(bytes <= kMaxBytes, "a receive that is too long");
    const Request request = requests_.Begin({.stream = stream, .tag = tag});
    stream->Receive(
        {.request = request, .tag = tag, .data = static_cast<char*>(data), .bytes = bytes});
    return request;
  }
  // One poll of all sockets answers for every request; the next one follows when a request is asked
  // about again.
  bool Done(Request request) override {
    if (request == 0) return true;
    if (!requests_.Owns(request)) return inner().Done(request);
    if (!requests_.Done(request) && requests_[request].polled == polls_) PollSockets();
    State& state = requests_[request];
    state.polled = polls_;
    const bool lost = state.tag == kControlTag && !state.stream->broken().empty();
    const std::string& reason = state.stream->broken();
    if (requests_.TakeDone(request)) return true;
    // Control messages find out that the rank is lost; other requests that wait for it end with the
    // group.
    if (lost) throw CommError(reason, "");
    return false;
  }
  bool TakeCompletions() override {
    const bool inner_completions = inner().TakeCompletions();
    return requests_.TakeCompletions() || inner_completions;
  }

 private:
  struct Watched {
    TcpStream* stream;
    uint32_t id;           // index in streams_
    bool blocked = false;  // as the waiter knows it
    bool removed = false;  // from the waiter
  };
  struct State {
    const TcpStream* stream = nullptr;
    int tag = 0;          // of a receive
    uint64_t polled = 0;  // polls_ when it was last asked about
  };

  TcpStream* StreamOf(int rank) const {
    Ensure(rank >= 0 && rank < size(), "a message to nowhere");
    return At(stream_of_, rank).get();
  }
  void OnDone(uint64_t request) override { requests_.Complete(request); }
  void OnFailed(uint64_t request, const std::string& error) override {
    requests_.Fail(request, error);
  }

  // Sends and reads as much as possible.
  void PollSockets() {
    ++polls_;
    for (Watched& watched : streams_) {
      if (!watched.blocked) watched.stream->Flush();
      if (watched.stream->stalled()) watched.stream->Read();
      UpdateEvents(watched);
    }
    std::array<epoll_event, 64> buffer;
    for (const epoll_event& event : waiter_->Poll(buffer)) {
      if (event.data.u32 == SocketWaiter::kWakeEvent) {
        waiter_->ClearWake();
        continue;
      }
      Watched& watched = streams_[event.data.u32];
      if (event.events & EPOLLOUT) watched.stream->Flush();
      if (event.events & ~uint32_t{EPOLLOUT}) watched.stream->Read();
      UpdateEvents(watched);
    }
    UpdatePollInterval();
  }
  // Makes the waiter wait for what the stream needs.
  void UpdateEvents(Watched& watched) {
    const TcpStream& stream = *watched.stream;
    if (!stream.broken().empty()) {
      if (!std::exchange(watched.removed, true)) waiter_->Remove(stream.socket());
    } else if (stream.blocked() != watched.blocked) {
      waiter_->Change(stream.socket(), watched.id, stream.blocked() ? EPOLLIN | EPOLLOUT : EPOLLIN);
    }
    watched.blocked = stream.blocked();
  }
  // The time in which half of the socket buffers drain, in the faster direction: the connection
  // never runs out of data.
  void UpdatePollInterval() {
    uint64_t sent = 0;
    uint64_t received = 0;
    bool waiting = false;
    for (const Watched& watched : streams_) {
      sent += watched.stream->bytes_sent();
      received += watched.stream->bytes_received();
      waiting |= watched.blocked;
    }
    const double now = Now();
    sending_.Update(now, sent, waiting);
    receiving_.Update(now, received, received > std::exchange(received_, received));
    const double rate = std::max(sending_.rate(), receiving_.rate());
    if (rate > 0)
      waiter_->SetPollInterval(
          std::clamp(0.5 * buffer_bytes_ / rate, kMinPollInterval, kMaxPollInterval));
  }

  const Sockets sockets_;
  const std::shared_ptr<SocketWaiter> waiter_;
  std::vector<std::unique_ptr<TcpStream>> stream_of_;  // by rank; null: through the inner transport
  std::vector<Watched> streams_;                       // those that exist
  RequestTable<State> requests_{Request{1} << 62};
  uint64_t polls_ = 1;
  double buffer_bytes_ = 0;  // that all sockets take before they block
  uint64_t received_ = 0;    // bytes, at the last poll
  TransferRate sending_, receiving_;
};

}  // namespace

std::unique_ptr<Transport> WithSockets(std::unique_ptr<Transport> inner,
                                       const SocketOptions& options) {
  auto [sockets, problem] = ConnectHosts(*inner, options);
  if (!problem.empty() && inner->rank() == 0)
    LogWarning("messages between hosts go through MPI, which is slower than sockets: {}", problem);
  for (int r = 0; r < inner->size(); ++r)
    if (sockets[r] >= 0)
      return std::make_unique<TcpTransport>(std::move(inner), std::move(sockets),
                                            std::make_shared<SocketWaiter>());
  return inner;
}

}  // namespace carafe
