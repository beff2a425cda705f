#include "carafe/comm/message_trace.h"

#include <chrono>
#include <unordered_map>

namespace carafe {
namespace {

class WatchedTransport final : public Transport {
 public:
  WatchedTransport(Transport& inner, MessageTrace* trace, MessageCounters* counters)
      : inner_(inner), trace_(trace), counters_(*counters) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  const std::string& host() const override { return inner_.host(); }

  Request Send(int to, int tag, const void* data, size_t bytes) override {
    const double begin = TraceClock();
    const Request request = inner_.Send(to, tag, data, bytes);
    counters_.bytes_sent.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
    const MessageEvent event{.sent = true, .peer = to, .tag = tag, .bytes = bytes, .begin = begin};
    if (request == 0) {
      At(event);
    } else {
      Open(request, event);
    }
    return request;
  }
  Request Receive(int from, int tag, void* data, size_t bytes) override {
    const Request request = inner_.Receive(from, tag, data, bytes);
    Open(request, {.sent = false, .peer = from, .tag = tag, .bytes = bytes});
    return request;
  }
  bool BuffersSends(int peer) const override { return inner_.BuffersSends(peer); }
  size_t ShortMessage(int peer) const override { return inner_.ShortMessage(peer); }
  Request ReceiveShort(int from, int tag, void* data, size_t most, size_t* got) override {
    const Request request = inner_.ReceiveShort(from, tag, data, most, got);
    Open(request, {.sent = false, .peer = from, .tag = tag}, got);
    return request;
  }
  bool any_thread() const override { return inner_.any_thread(); }
  bool CanLend(int from, size_t bytes) const override { return inner_.CanLend(from, bytes); }
  Request Borrow(int from, int tag, size_t bytes) override {
    const Request request = inner_.Borrow(from, tag, bytes);
    Open(request, {.sent = false, .peer = from, .tag = tag, .bytes = bytes});
    return request;
  }
  const void* Lent(Request request) const override { return inner_.Lent(request); }
  void Return(Request request) override { inner_.Return(request); }
  bool Done(Request request) override {
    const bool done = inner_.Done(request);
    if (done) Close(request);
    return done;
  }
  void Finish() override { inner_.Finish(); }
  void Abort(const std::string& message) noexcept override { inner_.Abort(message); }

 private:
  // A message that left at once.
  void At(MessageEvent event) {
    event.end = TraceClock();
    if (sends_ == 0)
      counters_.busy_seconds.store(
          counters_.busy_seconds.load(std::memory_order_relaxed) + event.end - event.begin,
          std::memory_order_relaxed);
    if (trace_ != nullptr) trace_->Message(event);
  }
  // `got`, if not null: the size is there when the request is done.
  void Open(Request request, MessageEvent event, const size_t* got = nullptr) {
    if (request == 0) return;
    event.begin = TraceClock();
    if (event.sent && sends_++ == 0) busy_since_ = event.begin;
    open_[request] = {event, got};
  }
  void Close(Request request) {
    const auto found = open_.find(request);
    if (found == open_.end()) return;  // from before the watch
    MessageEvent event = found->second.event;
    if (found->second.got) event.bytes = *found->second.got;
    open_.erase(found);
    event.end = TraceClock();
    if (!event.sent)
      counters_.bytes_received.fetch_add(static_cast<int64_t>(event.bytes),
                                         std::memory_order_relaxed);
    if (event.sent && --sends_ == 0)
      counters_.busy_seconds.store(
          counters_.busy_seconds.load(std::memory_order_relaxed) + event.end - busy_since_,
          std::memory_order_relaxed);
    if (trace_ != nullptr) trace_->Message(event);
  }

  Transport& inner_;
  MessageTrace* const trace_;
  MessageCounters& counters_;
  struct Watched {
    MessageEvent event;
    const size_t* got;
  };
  std::unordered_map<Request, Watched> open_;
  int sends_ = 0;  // under way
  double busy_since_ = 0;
};

}  // namespace

double TraceClock() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

std::unique_ptr<Transport> WatchMessages(Transport& inner, MessageTrace* trace,
                                         MessageCounters* counters) {
  return std::make_unique<WatchedTransport>(inner, trace, counters);
}

}  // namespace carafe
