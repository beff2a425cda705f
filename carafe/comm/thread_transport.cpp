#include "carafe/comm/thread_transport.h"

#include <fmt/format.h>

#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/base/mutex.h"
#include "carafe/base/thread_annotations.h"
#include "carafe/comm/mailbox.h"
#include "carafe/comm/request_table.h"

namespace carafe {
namespace {

// Up to this size a message is copied when it is sent, and its request is done.
constexpr size_t kEagerBytes = 4096;

}  // namespace

// The second of a send and its receive copies, under the one mutex, so memory is touched only while
// it belongs to the transport on both sides.
class ThreadHub {
 public:
  explicit ThreadHub(int size) : size_(size), ranks_(static_cast<size_t>(size)) {}
  int size() const { return size_; }

  Transport::Request Send(int from, int to, int tag, const void* data, size_t bytes) {
    MutexLock lock(mutex_);
    Mailbox<Message>& mailbox = mailboxes_[{from, to}];
    if (const auto receive = mailbox.TakeReceive(tag)) {
      Deliver(from, to, *receive, data, bytes);
      return 0;
    }
    Message message{.tag = tag, .data = static_cast<const char*>(data), .bytes = bytes};
    if (bytes <= kEagerBytes) {
      message.copy.assign(message.data, message.data + bytes);
    } else {
      message.request = At(ranks_, from).requests.Begin({.peer = to});
    }
    const Transport::Request request = message.request;
    mailbox.AddMessage(std::move(message));
    return request;
  }

  Transport::Request Receive(int from, int to, PendingReceive receive) {
    MutexLock lock(mutex_);
    receive.request = At(ranks_, to).requests.Begin({.peer = from});
    Mailbox<Message>& mailbox = mailboxes_[{from, to}];
    const auto message = mailbox.TakeMessage(receive.tag);
    if (!message) {
      mailbox.AddReceive(receive);
      return receive.request;
    }
    const bool copied = message->request == 0;
    Deliver(from, to, receive, copied ? message->copy.data() : message->data, message->bytes);
    if (!copied) At(ranks_, from).requests.Complete(message->request);
    return receive.request;
  }

  bool Done(int rank, Transport::Request request) {
    if (request == 0) return true;
    MutexLock lock(mutex_);
    RequestTable<State>& requests = At(ranks_, rank).requests;
    const int peer = requests[request].peer;
    if (requests.TakeDone(request)) return true;
    if (At(ranks_, peer).dead)
      throw CommError(fmt::format("the connection to rank {} is lost", peer), "");
    return false;
  }
  bool TakeCompletions(int rank) {
    MutexLock lock(mutex_);
    return At(ranks_, rank).requests.TakeCompletions();
  }

  // Forgets the memory that this rank has given to the hub.
  void Leave(int rank, bool dead) {
    MutexLock lock(mutex_);
    At(ranks_, rank).dead = dead;
    At(ranks_, rank).requests.Clear();
    for (auto& [from_and_to, mailbox] : mailboxes_) {
      if (from_and_to.first == rank)
        mailbox.EraseMessagesIf([](const Message& message) { return message.request != 0; });
      if (from_and_to.second == rank) mailbox.ClearReceives();
    }
  }

 private:
  struct Message {
    int tag = 0;
    Transport::Request request = 0;  // 0: the content is in `copy`, and the send is done
    const char* data = nullptr;
    size_t bytes = 0;
    std::vector<char> copy = {};
  };
  struct State {
    int peer = 0;
  };
  struct Rank {
    RequestTable<State> requests;
    bool dead = false;
  };

  void Deliver(int from, int to, const PendingReceive& receive, const void* content, size_t bytes)
      CARAFE_REQUIRES(mutex_) {
    RequestTable<State>& requests = At(ranks_, to).requests;
    if (!receive.Accepts(bytes))
      return requests.Fail(receive.request,
                           SizeMismatch(from, to, receive.tag, bytes, receive.bytes));
    if (bytes > 0) std::memcpy(receive.data, content, bytes);
    if (receive.received) *receive.received = bytes;
    requests.Complete(receive.request);
  }

  const int size_;
  Mutex mutex_;
  std::vector<Rank> ranks_ CARAFE_GUARDED_BY(mutex_);
  std::map<std::pair<int, int>, Mailbox<Message>> mailboxes_
      CARAFE_GUARDED_BY(mutex_);  // by (from, to)
};

namespace {

class ThreadTransport final : public Transport, private ShortMessages {
 public:
  ThreadTransport(std::shared_ptr<ThreadHub> hub, int rank)
      : Transport({rank, hub->size(), "thread" + std::to_string(rank)},
                  {.backend = "messages", .any_thread = true, .short_messages = this}),
        hub_(std::move(hub)) {}
  ~ThreadTransport() override {
    if (!finished_) hub_->Leave(rank(), true);
  }
  LinkTraits link(int /*peer*/) const override {
    return {.buffers_sends = true, .short_message_bytes = kEagerBytes};
  }
  Request Send(int to, int tag, const void* data, size_t bytes) override {
    Ensure(to >= 0 && to < size() && bytes <= kMaxBytes, "a send to nowhere, or too long");
    return hub_->Send(rank(), to, tag, data, bytes);
  }
  Request Receive(int from, int tag, void* data, size_t bytes) override {
    return ReceiveUpTo(from, tag, data, bytes, nullptr);
  }
  Request ReceiveUpTo(int from, int tag, void* data, size_t max_bytes, size_t* received) override {
    Ensure(from >= 0 && from < size() && max_bytes <= kMaxBytes,
           "a receive from nowhere, or too long");
    return hub_->Receive(
        from, rank(),
        {.tag = tag, .data = static_cast<char*>(data), .bytes = max_bytes, .received = received});
  }
  bool Done(Request request) override { return hub_->Done(rank(), request); }
  bool TakeCompletions() override { return hub_->TakeCompletions(rank()); }
  void Finish() override {
    finished_ = true;
    hub_->Leave(rank(), false);
  }
  void Abort(const std::string&) noexcept override {}

 private:
  const std::shared_ptr<ThreadHub> hub_;
  bool finished_ = false;
};

}  // namespace

std::shared_ptr<ThreadHub> MakeThreadHub(int size) { return std::make_shared<ThreadHub>(size); }

std::unique_ptr<Transport> MakeThreadTransport(std::shared_ptr<ThreadHub> hub, int rank) {
  Ensure(rank >= 0 && rank < hub->size(), "no such rank in this hub");
  return std::make_unique<ThreadTransport>(std::move(hub), rank);
}

}  // namespace carafe
