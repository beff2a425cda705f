#include "carafe/comm/sim_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "carafe/base/error.h"
#include "carafe/base/index.h"

namespace carafe {
namespace {

uint64_t KeyOf(int from, int tag) {
  return static_cast<uint64_t>(from) << 32 | static_cast<uint32_t>(tag);
}

}  // namespace

class SimNetwork::RankTransport final : public Transport {
 public:
  RankTransport(SimNetwork& network, int rank)
      : Transport({rank, network.size(), fmt::format("sim{}", rank)}, {.backend = "simulation"}),
        network_(network) {}
  LinkTraits link(int /*peer*/) const override { return {.buffers_sends = true}; }
  Request Send(int to, int tag, const void* data, size_t bytes) override {
    return network_.Send(rank(), to, tag, data, bytes);
  }
  Request Receive(int from, int tag, void* data, size_t bytes) override {
    return network_.Receive(rank(), from, tag, data, bytes);
  }
  bool Done(Request request) override { return network_.Done(rank(), request); }
  bool TakeCompletions() override { return network_.rank(rank()).requests.TakeCompletions(); }
  void Finish() override {}
  void Abort(const std::string&) noexcept override {}

 private:
  SimNetwork& network_;
};

SimNetwork::SimNetwork(int size, const SimOptions& options, std::vector<SimFault> faults)
    : options_(options),
      faults_(std::move(faults)),
      random_(options.seed),
      ranks_(static_cast<size_t>(size)) {
  for (int r = 0; r < size; ++r) transports_.push_back(std::make_unique<RankTransport>(*this, r));
}

SimNetwork::~SimNetwork() = default;

Transport& SimNetwork::transport(int rank) { return *carafe::At(transports_, rank); }

void SimNetwork::At(double time, int rank, std::function<void()> what) {
  events_.push({std::max(time, now_), order_++, rank, std::move(what)});
}

void SimNetwork::Run(const std::function<void(int rank)>& wake) {
  for (int r = 0; r < size(); ++r) wake(r);
  while (!events_.empty() || ReleaseHeld()) {
    now_ = events_.top().time;
    while (!events_.empty() && events_.top().time == now_) {
      const Event event = events_.top();
      events_.pop();
      if (dead(event.rank)) continue;
      if (event.what) event.what();
      if (!std::exchange(rank(event.rank).woken, true)) touched_.push_back(event.rank);
    }
    std::vector<int> touched;
    touched.swap(touched_);
    for (int r : touched) {
      rank(r).woken = false;
      if (!dead(r)) wake(r);
    }
  }
}

void SimNetwork::Kill(int victim) {
  rank(victim).dead = true;
  for (int r = 0; r < size(); ++r)
    if (r != victim) At(now_ + options_.latency, r, nullptr);
}

bool SimNetwork::Done(int r, Request request) {
  if (request == 0) return true;
  const int peer = rank(r).requests[request].peer;
  if (rank(r).requests.TakeDone(request)) return true;
  if (dead(peer)) throw CommError(fmt::format("the connection to rank {} is lost", peer), "");
  return false;
}

SimNetwork::Request SimNetwork::Send(int from, int to, int tag, const void* data, size_t bytes) {
  Ensure(to >= 0 && to < size() && bytes <= Transport::kMaxBytes, "a send to nowhere, or too long");
  Rank& sender = rank(from);
  const int64_t number = sender.sent[to]++;
  ++messages_;
  bytes_ += static_cast<int64_t>(bytes);
  if (on_send_) on_send_(from, to, tag, bytes);
  const Request request = sender.requests.Begin({.peer = to});
  bool dropped = false;
  bool reordered = false;
  int copies = 1;
  double delay = 0;
  if (options_.jitter > 0) delay = std::uniform_real_distribution<>(0, options_.jitter)(random_);
  for (const SimFault& fault : faults_) {
    if (fault.from != from || fault.to != to || fault.message != number) continue;
    if (fault.kind == SimFault::Kind::kKill) {
      Kill(from);
      return request;
    }
    dropped |= fault.kind == SimFault::Kind::kDrop;
    reordered |= fault.kind == SimFault::Kind::kReorder;
    if (fault.kind == SimFault::Kind::kDuplicate) copies = 2;
    if (fault.kind == SimFault::Kind::kDelay) delay += fault.seconds;
  }
  const double seconds = static_cast<double>(bytes) / options_.bandwidth;
  const double begin = std::max(now_, sender.send_free) + options_.overhead;
  const double end = begin + seconds;
  sender.send_free = end;
  Rank& receiver = rank(to);
  double arrival = std::max(begin + options_.latency, receiver.receive_free) + seconds;
  receiver.receive_free = arrival;
  Stream& stream = receiver.streams[KeyOf(from, tag)];
  arrival = std::max(arrival + delay, stream.last_arrival);  // one (from, tag) stays in order
  stream.last_arrival = arrival;
  // The memory is read when the sending ends, so that a caller that writes to it too early is
  // found.
  At(end, from, [=, this] {
    Message message{.tag = tag, .bytes = bytes};
    if (data) {
      const auto* first = static_cast<const char*>(data);
      message.content = std::make_shared<std::vector<char>>(first, first + bytes);
    }
    rank(from).requests.Complete(request);
    if (dropped) return;
    for (int i = 0; i < copies; ++i)
      At(arrival, to,
         [=, this] { reordered ? Hold(from, to, message) : Deliver(from, to, message); });
  });
  return request;
}

SimNetwork::Request SimNetwork::Receive(int to, int from, int tag, void* data, size_t bytes) {
  Ensure(from >= 0 && from < size(), "a receive from nowhere");
  Rank& receiver = rank(to);
  const Request request = receiver.requests.Begin({.peer = from});
  const PendingReceive receive{
      .request = request, .tag = tag, .data = static_cast<char*>(data), .bytes = bytes};
  Mailbox<Message>& mailbox = receiver.mailboxes[from];
  if (const auto message = mailbox.TakeMessage(tag)) {
    Match(from, to, receive, *message);
  } else {
    mailbox.AddReceive(receive);
  }
  return request;
}

void SimNetwork::Deliver(int from, int to, const Message& message) {
  std::vector<Message> messages = {message};
  for (Message& held : std::exchange(rank(to).streams[KeyOf(from, message.tag)].held, {}))
    messages.push_back(std::move(held));
  Mailbox<Message>& mailbox = rank(to).mailboxes[from];
  for (Message& m : messages) {
    if (const auto receive = mailbox.TakeReceive(m.tag)) {
      Match(from, to, *receive, m);
    } else {
      mailbox.AddMessage(std::move(m));
    }
  }
}

void SimNetwork::Hold(int from, int to, const Message& message) {
  rank(to).streams[KeyOf(from, message.tag)].held.push_back(message);
  holding_.push_back({from, to, message.tag});
}

// Delivers the messages that nothing has followed; returns whether there were any.
bool SimNetwork::ReleaseHeld() {
  for (const auto& [from, to, tag] : std::exchange(holding_, {})) {
    Stream& stream = rank(to).streams[KeyOf(from, tag)];
    for (const Message& held : std::exchange(stream.held, {}))
      At(now_, to, [=, this, from = from, to = to] { Deliver(from, to, held); });
  }
  return !events_.empty();
}

void SimNetwork::Match(int from, int to, const PendingReceive& receive, const Message& message) {
  RequestTable<State>& requests = rank(to).requests;
  if (!receive.Accepts(message.bytes))
    return requests.Fail(receive.request,
                         SizeMismatch(from, to, receive.tag, message.bytes, receive.bytes));
  if (message.content && receive.data && message.bytes > 0)
    std::memcpy(receive.data, message.content->data(), message.bytes);
  requests.Complete(receive.request);
}

}  // namespace carafe
