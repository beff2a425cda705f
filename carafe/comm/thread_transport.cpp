#include "carafe/comm/thread_transport.h"

#include <fmt/format.h>

#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "carafe/base/error.h"

namespace carafe {
namespace {

// Up to this size a message is copied when it is sent, and its request is done.
constexpr size_t kEagerBytes = 4096;

}  // namespace

// A message or receive that has found no partner yet waits in the queue of its (from, to, tag).
// Whoever comes second copies, under the one mutex, so memory is touched only while both sides lend
// it.
class ThreadHub {
 public:
  explicit ThreadHub(int size) : ranks_(size) {}
  int size() const { return static_cast<int>(ranks_.size()); }

  Transport::Request Send(int from, int to, int tag, const void* data, size_t bytes) {
    std::lock_guard lock(mutex_);
    const Transport::Request request = next_request_++;
    Queue& queue = queues_[{from, to, tag}];
    if (!queue.receives.empty()) {
      const PendingReceive receive = queue.receives.front();
      queue.receives.pop_front();
      Deliver(from, to, tag, data, bytes, receive);
      return 0;
    }
    Message message{request, data, bytes, {}};
    if (bytes <= kEagerBytes) {
      const auto* begin = static_cast<const char*>(data);
      message.copy.assign(begin, begin + bytes);
      message.request = 0;
    } else {
      ranks_[from].open[request] = {.peer = to};
    }
    queue.messages.push_back(std::move(message));
    return queue.messages.back().request;
  }

  // `got`, if not null: any message up to `bytes`.
  Transport::Request Receive(int from, int to, int tag, void* data, size_t bytes,
                             size_t* got = nullptr) {
    std::lock_guard lock(mutex_);
    const Transport::Request request = next_request_++;
    ranks_[to].open[request] = {.peer = from};
    Queue& queue = queues_[{from, to, tag}];
    if (queue.messages.empty()) {
      queue.receives.push_back({request, data, bytes, got});
      return request;
    }
    const Message message = std::move(queue.messages.front());
    queue.messages.pop_front();
    const void* source = message.request == 0 ? message.copy.data() : message.data;
    Deliver(from, to, tag, source, message.bytes, {request, data, bytes, got});
    if (message.request != 0) ranks_[from].open[message.request].done = true;
    return request;
  }

  bool Done(int rank, Transport::Request request) {
    if (request == 0) return true;
    std::lock_guard lock(mutex_);
    const auto found = ranks_[rank].open.find(request);
    Ensure(found != ranks_[rank].open.end(), "a request was asked about after it was done");
    const Open open = found->second;
    if (!open.error.empty()) throw CommError(open.error, "");
    if (open.done) {
      ranks_[rank].open.erase(found);
      return true;
    }
    if (ranks_[open.peer].dead)
      throw CommError(fmt::format("the connection to rank {} is lost", open.peer), "");
    return false;
  }

  // Forgets what this rank has lent; `dead` unless it left in good order.
  void Leave(int rank, bool dead) {
    std::lock_guard lock(mutex_);
    ranks_[rank].dead = dead;
    ranks_[rank].open.clear();
    for (auto& [key, queue] : queues_) {
      if (std::get<0>(key) == rank)
        std::erase_if(queue.messages, [](const Message& m) { return m.request != 0; });
      if (std::get<1>(key) == rank) queue.receives.clear();
    }
  }

 private:
  struct Message {
    Transport::Request request;  // 0: copied
    const void* data;
    size_t bytes;
    std::vector<char> copy;
  };
  struct PendingReceive {
    Transport::Request request;
    void* data;
    size_t bytes;
    size_t* got;  // null: exactly `bytes`
  };
  struct Queue {
    std::deque<Message> messages;
    std::deque<PendingReceive> receives;
  };
  struct Open {
    int peer = 0;
    bool done = false;
    std::string error;
  };
  struct Rank {
    std::map<Transport::Request, Open> open;
    bool dead = false;
  };

  void Deliver(int from, int to, int tag, const void* source, size_t bytes,
               const PendingReceive& receive) {
    Open& open = ranks_[to].open[receive.request];
    if (receive.got ? bytes > receive.bytes : bytes != receive.bytes) {
      open.error = fmt::format("a message of rank {} to rank {} (tag {}) has {} bytes, not {}",
                               from, to, tag, bytes, receive.bytes);
      return;
    }
    if (bytes > 0) std::memcpy(receive.data, source, bytes);
    if (receive.got) *receive.got = bytes;
    open.done = true;
  }

  std::mutex mutex_;  // guards all below
  Transport::Request next_request_ = 1;
  std::vector<Rank> ranks_;
  std::map<std::tuple<int, int, int>, Queue> queues_;  // by (from, to, tag)
};

namespace {

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(std::shared_ptr<ThreadHub> hub, int rank)
      : hub_(std::move(hub)), rank_(rank), host_("thread" + std::to_string(rank)) {}
  ~ThreadTransport() override {
    if (!finished_) hub_->Leave(rank_, true);
  }
  int rank() const override { return rank_; }
  int size() const override { return hub_->size(); }
  const std::string& host() const override { return host_; }
  Request Send(int to, int tag, const void* data, size_t bytes) override {
    Ensure(to >= 0 && to < size() && bytes <= kMaxBytes, "a send to nowhere, or too long");
    return hub_->Send(rank_, to, tag, data, bytes);
  }
  Request Receive(int from, int tag, void* data, size_t bytes) override {
    Ensure(from >= 0 && from < size() && bytes <= kMaxBytes, "a receive of nobody, or too long");
    return hub_->Receive(from, rank_, tag, data, bytes);
  }
  bool BuffersSends(int /*peer*/) const override { return true; }
  size_t ShortMessage(int /*peer*/) const override { return kEagerBytes; }
  Request ReceiveShort(int from, int tag, void* data, size_t most, size_t* got) override {
    Ensure(from >= 0 && from < size() && most <= kMaxBytes, "a receive of nobody, or too long");
    return hub_->Receive(from, rank_, tag, data, most, got);
  }
  bool Done(Request request) override { return hub_->Done(rank_, request); }
  bool any_thread() const override { return true; }
  void Finish() override {
    finished_ = true;
    hub_->Leave(rank_, false);
  }
  void Abort(const std::string&) noexcept override {}

 private:
  const std::shared_ptr<ThreadHub> hub_;
  const int rank_;
  const std::string host_;
  bool finished_ = false;
};

}  // namespace

std::shared_ptr<ThreadHub> MakeThreadHub(int size) { return std::make_shared<ThreadHub>(size); }

std::unique_ptr<Transport> MakeThreadTransport(std::shared_ptr<ThreadHub> hub, int rank) {
  Ensure(rank >= 0 && rank < hub->size(), "no such rank in this hub");
  return std::make_unique<ThreadTransport>(std::move(hub), rank);
}

}  // namespace carafe
