#include "carafe/comm/message_trace.h"

#include <chrono>
#include <unordered_map>

#include "carafe/comm/transport_decorator.h"

namespace carafe {
namespace {

TransportCapabilities CapabilitiesOver(const Transport& inner, ShortMessages* short_messages,
                                       ZeroCopy* zero_copy) {
  TransportCapabilities capabilities = inner.capabilities();
  if (capabilities.short_messages) capabilities.short_messages = short_messages;
  if (capabilities.zero_copy) capabilities.zero_copy = zero_copy;
  return capabilities;
}

class WatchedTransport final : public TransportDecorator, private ShortMessages, private ZeroCopy {
 public:
  WatchedTransport(Transport& inner, MessageTrace* trace, MessageCounters* counters)
      : TransportDecorator(inner, CapabilitiesOver(inner, this, this)),
        trace_(trace),
        counters_(*counters) {}

  Request Send(int to, int tag, const void* data, size_t bytes) override {
    const double begin = TraceClock();
    const Request request = inner().Send(to, tag, data, bytes);
    counters_.bytes_sent.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
    const MessageEvent event{.sent = true, .peer = to, .tag = tag, .bytes = bytes, .begin = begin};
    if (request == 0) {
      RecordSent(event);
    } else {
      Open(request, event);
    }
    return request;
  }
  Request Receive(int from, int tag, void* data, size_t bytes) override {
    const Request request = inner().Receive(from, tag, data, bytes);
    Open(request, {.sent = false, .peer = from, .tag = tag, .bytes = bytes});
    return request;
  }
  bool Done(Request request) override {
    const bool done = inner().Done(request);
    if (done) Close(request);
    return done;
  }
  Request ReceiveUpTo(int from, int tag, void* data, size_t max_bytes, size_t* received) override {
    const Request request =
        inner().capabilities().short_messages->ReceiveUpTo(from, tag, data, max_bytes, received);
    Open(request, {.sent = false, .peer = from, .tag = tag}, received);
    return request;
  }
  bool CanView(int from, size_t bytes) const override { return inner_views().CanView(from, bytes); }
  Request ReceiveView(int from, int tag, size_t bytes) override {
    const Request request = inner_views().ReceiveView(from, tag, bytes);
    Open(request, {.sent = false, .peer = from, .tag = tag, .bytes = bytes});
    return request;
  }
  const void* view(Request request) const override { return inner_views().view(request); }
  void ReleaseView(Request request) override { inner_views().ReleaseView(request); }

 private:
  ZeroCopy& inner_views() const { return *inner().capabilities().zero_copy; }
  // A send that was done at once.
  void RecordSent(MessageEvent event) {
    event.end = TraceClock();
    if (sends_ == 0)
      counters_.busy_seconds.store(
          counters_.busy_seconds.load(std::memory_order_relaxed) + event.end - event.begin,
          std::memory_order_relaxed);
    if (trace_ != nullptr) trace_->Message(event);
  }
  // `received`, if not null, holds the size when the request is done.
  void Open(Request request, MessageEvent event, const size_t* received = nullptr) {
    if (request == 0) return;
    event.begin = TraceClock();
    if (event.sent && sends_++ == 0) busy_since_ = event.begin;
    open_[request] = {event, received};
  }
  void Close(Request request) {
    const auto found = open_.find(request);
    if (found == open_.end()) return;  // it began before the trace
    MessageEvent event = found->second.event;
    if (found->second.received) event.bytes = *found->second.received;
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

  MessageTrace* const trace_;
  MessageCounters& counters_;
  struct Watched {
    MessageEvent event;
    const size_t* received;
  };
  std::unordered_map<Request, Watched> open_;
  int sends_ = 0;  // in progress
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
