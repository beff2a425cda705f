// Every decorator of transports, over an inner transport that has every capability: what goes
// through the inner transport must keep all of them.
#include "carafe/comm/transport_decorator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "carafe/comm/message_trace.h"
#include "carafe/comm/run_ranks.h"
#include "carafe/comm/shm_transport.h"
#include "carafe/comm/tcp_transport.h"
#include "carafe/comm/thread_transport.h"
#include "tests/support/delayed_transport.h"
#include "tests/support/transport_messages.h"
#include "tests/support/wrapped_transport.h"

namespace carafe {
namespace {

// What happened to the inner transports of all ranks.
struct Calls {
  std::atomic<int> finished{0}, aborted{0};
};

// Ranks as threads, with all capabilities. Views are copies that it makes itself.
class CapableTransport final : public TransportDecorator, private ZeroCopy {
 public:
  CapableTransport(std::unique_ptr<Transport>&& threads, Calls& calls)
      : TransportDecorator(std::move(threads),
                           {.backend = "everything",
                            .any_thread = true,
                            .shares_memory = true,
                            .short_messages = threads->capabilities().short_messages,
                            .zero_copy = this,
                            .waiter = nullptr}),
        calls_(calls) {}
  LinkTraits link(int peer) const override {
    LinkTraits traits = inner().link(peer);
    traits.device_memory = true;
    return traits;
  }
  bool TakeCompletions() override { return std::exchange(completed_, false); }
  void Finish() override {
    ++calls_.finished;
    inner().Finish();
  }
  void Abort(const std::string&) noexcept override { ++calls_.aborted; }

  bool CanView(int /*from*/, size_t bytes) const override { return bytes == sizeof copy_; }
  Request ReceiveView(int from, int tag, size_t bytes) override {
    return inner().Receive(from, tag, &copy_, bytes);
  }
  const void* view(Request) const override { return &copy_; }
  void ReleaseView(Request) override { ++released_; }

 private:
  Calls& calls_;
  bool completed_ = true;
  int copy_ = 0;
  int released_ = 0;
};

// Owns both transports of a trace, as CommThread does.
class Traced final : public TransportDecorator {
 public:
  explicit Traced(std::unique_ptr<Transport>&& inner)
      : Traced(std::make_unique<Parts>(std::move(inner))) {}

 private:
  struct Parts {
    explicit Parts(std::unique_ptr<Transport> to_watch)
        : inner(std::move(to_watch)), watched(WatchMessages(*inner, nullptr, &counters)) {}
    MessageCounters counters;
    std::unique_ptr<Transport> inner;
    std::unique_ptr<Transport> watched;
  };
  explicit Traced(std::unique_ptr<Parts> parts)
      : TransportDecorator(*parts->watched, parts->watched->capabilities()),
        parts_(std::move(parts)) {}
  const std::unique_ptr<Parts> parts_;
};

// Ranks 0 and 1 are on one host, rank 2 on another.
std::string HostOf(int rank) { return rank < 2 ? "a" : "b"; }

struct Decorator {
  std::string name;
  std::function<std::unique_ptr<Transport>(std::unique_ptr<Transport>)> make;
  int peer;  // of rank 0 that its inner transport serves
  std::string backend;
  bool device_memory = true;   // passed on
  bool short_messages = true;  // passed on
  bool zero_copy = true;       // passed on
};

void PrintTo(const Decorator& decorator, std::ostream* out) { *out << decorator.name; }

const Decorator kDecorators[] = {
    {"SharedMemory",
     [](std::unique_ptr<Transport> inner) {
       const std::string host = HostOf(inner->rank());
       return WithSharedMemory(std::move(inner), {.identity = host});
     },
     2, "shared memory inside this host, everything to others"},
    {"Sockets",
     [](std::unique_ptr<Transport> inner) {
       const std::string host = HostOf(inner->rank());
       return WithSockets(std::move(inner), {.identity = host, .addresses = {"127.0.0.1"}});
     },
     1, "TCP sockets"},
    {"Trace",
     [](std::unique_ptr<Transport> inner) { return std::make_unique<Traced>(std::move(inner)); }, 1,
     "everything"},
    {"Delayed",
     [](std::unique_ptr<Transport> inner) {
       return std::make_unique<DelayedTransport>(std::move(inner), 1, true);
     },
     1, "everything", false, true, false},
    {"Wrapped",
     [](std::unique_ptr<Transport> inner) {
       return std::make_unique<WrappedTransport>(std::move(inner));
     },
     1, "everything", false, false, false},
};

class TransportDecoratorTest : public ::testing::TestWithParam<Decorator> {
 protected:
  // Runs all ranks; rank 0 and its peer run `body`.
  void Run(const std::function<void(Transport&, int other)>& body) {
    const std::shared_ptr<ThreadHub> hub = MakeThreadHub(3);
    std::vector<std::thread> threads;
    for (int r = 0; r < 3; ++r)
      threads.emplace_back([&, r] {
        const std::unique_ptr<Transport> transport = GetParam().make(
            std::make_unique<CapableTransport>(MakeThreadTransport(hub, r), calls_));
        if (r == 0) body(*transport, GetParam().peer);
        if (r == GetParam().peer) body(*transport, 0);
        transport->Finish();
      });
    for (std::thread& thread : threads) thread.join();
  }
  Calls calls_;
};

TEST_P(TransportDecoratorTest, PassesOnWhatTheInnerTransportCanDo) {
  Run([](Transport& t, int other) {
    const TransportCapabilities& capabilities = t.capabilities();
    if (t.rank() == 0) {
      EXPECT_EQ(capabilities.backend, GetParam().backend);
    }
    EXPECT_TRUE(capabilities.any_thread);
    EXPECT_EQ(capabilities.short_messages != nullptr, GetParam().short_messages);
    EXPECT_EQ(capabilities.zero_copy != nullptr, GetParam().zero_copy);
    EXPECT_EQ(t.link(other).device_memory, GetParam().device_memory);
    EXPECT_EQ(t.link(other).short_message_bytes > 0, GetParam().short_messages);
    EXPECT_EQ(t.host(), "thread" + std::to_string(t.rank()));
  });
}

TEST_P(TransportDecoratorTest, PassesOnCompletionsFinishAndAbort) {
  Run([](Transport& t, int) {
    EXPECT_TRUE(t.TakeCompletions());
    EXPECT_FALSE(t.TakeCompletions());
    t.Abort("the end");
  });
  EXPECT_EQ(calls_.finished, 3);
  EXPECT_EQ(calls_.aborted, 2);
}

TEST_P(TransportDecoratorTest, PassesOnMessagesOfEveryKind) {
  Run([](Transport& t, int other) {
    const int mine = 100 + t.rank();
    int in = 0;
    AwaitAll(t, {t.Send(other, 7, &mine, sizeof mine), t.Receive(other, 7, &in, sizeof in)});
    EXPECT_EQ(in, 100 + other);
    if (ShortMessages* short_messages = t.capabilities().short_messages) {
      char buffer[64];
      size_t received = 0;
      AwaitAll(t, {t.Send(other, 8, &mine, sizeof mine),
                   short_messages->ReceiveUpTo(other, 8, buffer, sizeof buffer, &received)});
      EXPECT_EQ(received, sizeof mine);
    }
    if (ZeroCopy* zero_copy = t.capabilities().zero_copy) {
      ASSERT_TRUE(zero_copy->CanView(other, sizeof mine));
      const auto view = zero_copy->ReceiveView(other, 9, sizeof mine);
      AwaitAll(t, {t.Send(other, 9, &mine, sizeof mine), view});
      EXPECT_EQ(*static_cast<const int*>(zero_copy->view(view)), 100 + other);
      zero_copy->ReleaseView(view);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, TransportDecoratorTest, ::testing::ValuesIn(kDecorators),
                         [](const auto& info) { return info.param.name; });

// Memory of a device goes only where the connection itself takes it: the ring and the sockets copy
// with the CPU.
TEST(TransportDecorator, OnlyConnectionsOfTheInnerTransportTakeDeviceMemory) {
  for (const bool sockets : {false, true}) {
    const std::shared_ptr<ThreadHub> hub = MakeThreadHub(3);
    Calls calls;
    std::vector<std::thread> threads;
    for (int r = 0; r < 3; ++r)
      threads.emplace_back([&, r] {
        const std::unique_ptr<Transport> t = kDecorators[sockets ? 1 : 0].make(
            std::make_unique<CapableTransport>(MakeThreadTransport(hub, r), calls));
        for (int peer = 0; peer < 3; ++peer) {
          if (peer == r) continue;
          const bool same_host = HostOf(peer) == HostOf(r);
          const bool inner_only = !sockets && r == 2;  // it has no neighbours
          EXPECT_EQ(t->link(peer).device_memory, inner_only || same_host == sockets);
        }
        t->Finish();
      });
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace carafe
