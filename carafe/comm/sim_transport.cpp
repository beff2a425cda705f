#include "carafe/comm/sim_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "carafe/base/error.h"

namespace carafe {
namespace {

uint64_t KeyOf(int from, int tag) {
  return static_cast<uint64_t>(from) << 32 | static_cast<uint32_t>(tag);
}

}  // namespace

class SimNetwork::RankTransport final : public Transport {
 public:
  RankTransport(SimNetwork& network, int rank)
      : network_(network), rank_(rank), host_(fmt::format("sim{}", rank)) {}
  int rank() const override { return rank_; }
  int size() const override { return network_.size(); }
  const std::string& host() const override { return host_; }
  Request Send(int to, int tag, const void* data, size_t bytes) override {
    return network_.Send(rank_, to, tag, data, bytes);
  }
  Request Receive(int from, int tag, void* data, size_t bytes) override {
    return network_.Receive(rank_, from, tag, data, bytes);
  }
  bool Done(Request request) override { return network_.Done(rank_, request); }
  bool BuffersSends(int) const override { return true; }
  void Finish() override {}
  void Abort(const std::string&) noexcept override {}

 private:
  SimNetwork& network_;
  const int rank_;
  const std::string host_;
};

SimNetwork::SimNetwork(int size, const SimOptions& options, std::vector<SimFault> faults)
    : options_(options),
      faults_(std::move(faults)),
      random_(options.seed),
      ranks_(static_cast<size_t>(size)) {
  for (int r = 0; r < size; ++r) transports_.push_back(std::make_unique<RankTransport>(*this, r));
}

SimNetwork::~SimNetwork() = default;

Transport& SimNetwork::transport(int rank) { return *transports_[static_cast<size_t>(rank)]; }

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
      if (ranks_[static_cast<size_t>(event.rank)].dead) continue;
      if (event.what) event.what();
      Rank& rank = ranks_[static_cast<size_t>(event.rank)];
      if (!std::exchange(rank.woken, true)) touched_.push_back(event.rank);
    }
    std::vector<int> touched;
    touched.swap(touched_);
    for (int r : touched) {
      ranks_[static_cast<size_t>(r)].woken = false;
      if (!dead(r)) wake(r);
    }
  }
}

void SimNetwork::Kill(int rank) {
  ranks_[static_cast<size_t>(rank)].dead = true;
  for (int r = 0; r < size(); ++r)
    if (r != rank) At(now_ + options_.latency, r, nullptr);
}

SimNetwork::Request SimNetwork::Begin(int rank, int peer) {
  Rank& r = ranks_[static_cast<size_t>(rank)];
  Request request = 0;
  if (r.unused.empty()) {
    r.open.emplace_back();
    request = r.open.size();
  } else {
    request = r.unused.back();
    r.unused.pop_back();
  }
  r.open[request - 1] = {.done = false, .peer = peer, .error = {}};
  return request;
}

void SimNetwork::Complete(int rank, Request request) {
  ranks_[static_cast<size_t>(rank)].open[request - 1].done = true;
}

bool SimNetwork::Done(int rank, Request request) {
  if (request == 0) return true;
  Rank& r = ranks_[static_cast<size_t>(rank)];
  Open& open = r.open.at(request - 1);
  Ensure(open.peer >= 0, "a request was asked about after it was done");
  if (!open.error.empty()) throw CommError(open.error, "");
  if (!open.done) {
    if (dead(open.peer))
      throw CommError(fmt::format("the connection to rank {} is lost", open.peer), "");
    return false;
  }
  open.peer = -1;
  r.unused.push_back(request);
  return true;
}

SimNetwork::Request SimNetwork::Send(int from, int to, int tag, const void* data, size_t bytes) {
  Ensure(to >= 0 && to < size() && bytes <= Transport::kMaxBytes, "a send to nowhere, or too long");
  Rank& sender = ranks_[static_cast<size_t>(from)];
  const int64_t number = sender.sent[to]++;
  ++messages_;
  bytes_ += static_cast<int64_t>(bytes);
  if (on_send_) on_send_(from, to, tag, bytes);
  const Request request = Begin(from, to);
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
  Rank& receiver = ranks_[static_cast<size_t>(to)];
  double arrival = std::max(begin + options_.latency, receiver.receive_free) + seconds;
  receiver.receive_free = arrival;
  Queue& queue = receiver.queues[KeyOf(from, tag)];
  arrival = std::max(arrival + delay, queue.last_arrival);  // one (from, tag) stays in order
  queue.last_arrival = arrival;
  // The memory is read when the sending ends, so that who writes to it too early is found out.
  At(end, from, [=, this] {
    Message message{nullptr, bytes};
    if (data) {
      const auto* first = static_cast<const char*>(data);
      message.content = std::make_shared<std::vector<char>>(first, first + bytes);
    }
    Complete(from, request);
    if (dropped) return;
    for (int i = 0; i < copies; ++i)
      At(arrival, to,
         [=, this] { reordered ? Hold(from, to, tag, message) : Deliver(from, to, tag, message); });
  });
  return request;
}

SimNetwork::Request SimNetwork::Receive(int to, int from, int tag, void* data, size_t bytes) {
  Ensure(from >= 0 && from < size(), "a receive of nobody");
  const Request request = Begin(to, from);
  Queue& queue = ranks_[static_cast<size_t>(to)].queues[KeyOf(from, tag)];
  queue.receives.push_back({request, data, bytes});
  Match(from, to, tag, queue);
  return request;
}

void SimNetwork::Deliver(int from, int to, int tag, const Message& message) {
  Queue& queue = ranks_[static_cast<size_t>(to)].queues[KeyOf(from, tag)];
  queue.messages.push_back(message);
  for (Message& held : std::exchange(queue.held, {})) queue.messages.push_back(std::move(held));
  Match(from, to, tag, queue);
}

void SimNetwork::Hold(int from, int to, int tag, const Message& message) {
  ranks_[static_cast<size_t>(to)].queues[KeyOf(from, tag)].held.push_back(message);
  holding_.push_back({from, to, tag});
}

// Those that nothing has followed come now; says whether there were any.
bool SimNetwork::ReleaseHeld() {
  for (const auto& [from, to, tag] : std::exchange(holding_, {})) {
    Queue& queue = ranks_[static_cast<size_t>(to)].queues[KeyOf(from, tag)];
    for (const Message& held : std::exchange(queue.held, {}))
      At(now_, to, [=, this, from = from, to = to, tag = tag] { Deliver(from, to, tag, held); });
  }
  return !events_.empty();
}

void SimNetwork::Match(int from, int to, int tag, Queue& queue) {
  while (queue.first_message < queue.messages.size() &&
         queue.first_receive < queue.receives.size()) {
    const Message& message = queue.messages[queue.first_message++];
    const PendingReceive& receive = queue.receives[queue.first_receive++];
    Open& open = ranks_[static_cast<size_t>(to)].open[receive.request - 1];
    if (message.bytes != receive.bytes) {
      open.error = fmt::format("a message of rank {} to rank {} (tag {}) has {} bytes, not {}",
                               from, to, tag, message.bytes, receive.bytes);
    } else {
      if (message.content && receive.data && message.bytes > 0)
        std::memcpy(receive.data, message.content->data(), message.bytes);
      open.done = true;
    }
  }
  if (queue.first_message == queue.messages.size()) {
    queue.messages.clear();
    queue.first_message = 0;
  }
  if (queue.first_receive == queue.receives.size()) {
    queue.receives.clear();
    queue.first_receive = 0;
  }
}

}  // namespace carafe
