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

#include "carafe/comm/mailbox.h"
#include "carafe/comm/request_table.h"
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
  // The rank dies now, with all that it has not sent completely; ranks that wait for it notice.
  void Kill(int victim);
  // `on_send` is called for every message.
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
    int tag = 0;
    std::shared_ptr<std::vector<char>> content = {};  // null: a size only
    size_t bytes = 0;
  };
  struct Stream {               // the messages of one (from, to, tag)
    std::vector<Message> held;  // until the next one has come (kReorder)
    double last_arrival = 0;
  };
  struct State {
    int peer = 0;
  };
  struct Rank {
    RequestTable<State> requests;
    std::unordered_map<int, Mailbox<Message>> mailboxes;  // by sender
    std::unordered_map<uint64_t, Stream> streams;         // by sender and tag
    std::unordered_map<int, int64_t> sent;                // number of messages, by receiver
    double send_free = 0, receive_free = 0;
    bool dead = false;
    bool woken = false;
  };

  Rank& rank(int r) { return ranks_[static_cast<size_t>(r)]; }
  Request Send(int from, int to, int tag, const void* data, size_t bytes);
  Request Receive(int to, int from, int tag, void* data, size_t bytes);
  bool Done(int rank, Request request);
  void Deliver(int from, int to, const Message& message);
  void Hold(int from, int to, const Message& message);
  bool ReleaseHeld();
  void Match(int from, int to, const PendingReceive& receive, const Message& message);

  const SimOptions options_;
  const std::vector<SimFault> faults_;
  std::mt19937_64 random_;
  std::vector<Rank> ranks_;
  std::vector<std::unique_ptr<RankTransport>> transports_;
  std::priority_queue<Event> events_;
  std::vector<int> touched_;
  std::vector<std::array<int, 3>> holding_;  // (from, to, tag) of streams that hold messages back
  Watcher on_send_;
  uint64_t order_ = 0;
  double now_ = 0;
  int64_t messages_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace carafe
