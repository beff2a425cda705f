// A transport that holds messages back at random: what is sent leaves some polls later, and what
// has come is seen some polls later. Messages of one (from, tag) stay in their order, others pass
// each other. For ranks that are threads.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <utility>

#include "carafe/base/error.h"
#include "carafe/comm/run_ranks.h"
#include "carafe/comm/transport_decorator.h"

namespace carafe {

class DelayedTransport final : public TransportDecorator, private ShortMessages {
 public:
  // `coalesce`: short messages travel with their headers.
  DelayedTransport(std::unique_ptr<Transport>&& inner, uint64_t seed, bool coalesce)
      : TransportDecorator(std::move(inner), {.backend = inner->capabilities().backend,
                                              .any_thread = inner->capabilities().any_thread,
                                              .short_messages = coalesce ? this : nullptr}),
        coalesce_(coalesce),
        random_(seed * 64 + static_cast<uint64_t>(rank())) {}

  LinkTraits link(int peer) const override {
    const LinkTraits link = inner().link(peer);
    return {.buffers_sends = link.buffers_sends,
            .short_message_bytes = coalesce_ ? link.short_message_bytes : 0};
  }
  Request Send(int to, int tag, const void* data, size_t bytes) override {
    const Request request = Begin(0);
    queues_[{to, tag}].push_back({request, data, bytes, polls_ + Polls()});
    return request;
  }
  Request Receive(int from, int tag, void* data, size_t bytes) override {
    return Begin(inner().Receive(from, tag, data, bytes));
  }
  Request ReceiveUpTo(int from, int tag, void* data, size_t max_bytes, size_t* received) override {
    return Begin(
        inner().capabilities().short_messages->ReceiveUpTo(from, tag, data, max_bytes, received));
  }
  bool Done(Request request) override {
    if (request == 0) return true;
    ++polls_;
    Release();
    const auto found = open_.find(request);
    Ensure(found != open_.end(), "a request was asked about after it was done");
    Open& open = found->second;
    if (open.held) return false;
    if (!open.inner_done) {
      if (!inner().Done(open.inner)) return false;
      open.inner_done = true;
      open.seen_from = polls_ + Polls();
    }
    if (polls_ < open.seen_from) return false;
    open_.erase(found);
    return true;
  }

 private:
  struct Open {
    Request inner = 0;
    bool held = false;  // not sent yet
    bool inner_done = false;
    uint64_t seen_from = 0;  // poll
  };
  struct Held {
    Request request;
    const void* data;
    size_t bytes;
    uint64_t leaves_at;  // poll
  };

  // Most messages are not delayed, some little, few by much.
  uint64_t Polls() {
    const uint64_t dice = random_() % 16;
    return dice < 8 ? 0 : dice < 14 ? random_() % 4 : random_() % 12;
  }
  Request Begin(Request inner) {
    open_[++last_] = {.inner = inner, .held = inner == 0};
    return last_;
  }
  void Release() {
    for (auto queue = queues_.begin(); queue != queues_.end();) {
      auto& [peer_and_tag, messages] = *queue;
      while (!messages.empty() && messages.front().leaves_at <= polls_) {
        const Held& held = messages.front();
        Open& open = open_.at(held.request);
        open.held = false;
        open.inner = inner().Send(peer_and_tag.first, peer_and_tag.second, held.data, held.bytes);
        messages.pop_front();
      }
      queue = messages.empty() ? queues_.erase(queue) : std::next(queue);
    }
  }

  const bool coalesce_;
  std::mt19937_64 random_;
  uint64_t polls_ = 0;
  Request last_ = 0;
  std::map<Request, Open> open_;
  std::map<std::pair<int, int>, std::deque<Held>> queues_;  // by receiver and tag
};

inline RankLink Delayed(uint64_t seed, bool coalesce) {
  return [=](std::unique_ptr<Transport> threads) {
    return std::make_unique<DelayedTransport>(std::move(threads), seed, coalesce);
  };
}

}  // namespace carafe
