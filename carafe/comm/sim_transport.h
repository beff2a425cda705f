// Ranks in virtual time: a thousand transports in one thread, deterministic. Messages take the time
// that a latency and a bandwidth per rank and direction give them; faults come from a table. What
// is sent may have no memory at all, only a size.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "carafe/comm/transport.h"

namespace carafe {

struct SimOptions {
  double latency = 40e-6;    // seconds from the end of a message's sending to its arrival
  double bandwidth = 1.1e9;  // bytes per second, per rank, each way
  double overhead = 1e-6;    // of the sender, per message
  double jitter = 0;         // every message is delayed by up to this many seconds more, at random
  uint64_t seed = 1;
};

// What happens to the message-th message (from 0) that `from` sends to `to`.
struct SimFault {
  enum class Kind {
    kDrop,
    kDelay,
    kDuplicate,
    kReorder,  // it and the next of the same (from, to, tag) change places; if none follows, it
               // comes when nothing else happens any more
    kKill,     // `from` dies instead of sending
  };
  Kind kind;
  int from, to;
  int64_t message;
  double seconds = 0;  // of kDelay; those that follow may overtake it if their tags differ
};

class SimNetwork {
 public:
  explicit SimNetwork(int size, const SimOptions& options = {}, std::vector<SimFault> faults = {});
  ~SimNetwork();

  int size() const { return static_cast<int>(ranks_.size()); }
  Transport& transport(int rank);
  double now() const { return now_; }
  bool dead(int rank) const { return ranks_[static_cast<size_t>(rank)].dead; }
  // `what` happens at that time (not before now); the rank is woken after it.
  void At(double time, int rank, std::function<void()> what);
  // The rank dies now, with all that it has not sent whole; whoever waits for it notices.
  void Kill(int rank);
  // `on_send` is told of every message.
  using Watcher = std::function<void(int from, int to, int tag, size_t bytes)>;
  void Watch(Watcher on_send) { on_send_ = std::move(on_send); }
  // Until nothing is to come: at each moment all that happens, then wake(rank) for every rank that
  // something happened to. wake() polls until nothing moves.
  void Run(const std::function<void(int rank)>& wake);

  int64_t messages() const { return messages_; }
  int64_t bytes() const { return bytes_; }

 private:
  class RankTransport;
  using Request = Transport::Request;
  struct Event {
    double time;
    uint64_t order;
    int rank;
    std::function<void()> what;
    bool operator<(const Event& other) const {  // the earliest is the top
      return time != other.time ? time > other.time : order > other.order;
    }
  };
  struct Message {
    std::shared_ptr<std::vector<char>> content;  // null: a size only
    size_t bytes;
  };
  struct PendingReceive {
    Request request;
    void* data;
    size_t bytes;
  };
  struct Queue {  // of one (from, to, tag)
    std::vector<Message> messages;
    std::vector<PendingReceive> receives;
    std::vector<Message> held;  // until the next has come (kReorder)
    size_t first_message = 0, first_receive = 0;
    double last_arrival = 0;
  };
  struct Open {
    bool done = false;
    int peer = -1;
    std::string error;
  };
  struct Rank {
    std::vector<Open> open;  // request - 1
    std::vector<Request> unused;
    std::unordered_map<uint64_t, Queue> queues;  // by from and tag
    std::unordered_map<int, int64_t> sent;       // messages, by peer
    double send_free = 0, receive_free = 0;
    bool dead = false;
    bool woken = false;
  };

  Request Begin(int rank, int peer);
  Request Send(int from, int to, int tag, const void* data, size_t bytes);
  Request Receive(int to, int from, int tag, void* data, size_t bytes);
  bool Done(int rank, Request request);
  void Complete(int rank, Request request);
  void Deliver(int from, int to, int tag, const Message& message);
  void Hold(int from, int to, int tag, const Message& message);
  bool ReleaseHeld();
  void Match(int from, int to, int tag, Queue& queue);

  const SimOptions options_;
  const std::vector<SimFault> faults_;
  std::mt19937_64 random_;
  std::vector<Rank> ranks_;
  std::vector<std::unique_ptr<RankTransport>> transports_;
  std::priority_queue<Event> events_;
  std::vector<int> touched_;
  std::vector<std::array<int, 3>> holding_;  // from, to and tag of queues that hold messages back
  Watcher on_send_;
  uint64_t order_ = 0;
  double now_ = 0;
  int64_t messages_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace carafe
