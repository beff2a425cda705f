#include "carafe/comm/tcp_transport.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/comm/run_ranks.h"
#include "carafe/comm/socket_waiter.h"
#include "carafe/comm/tags.h"
#include "carafe/comm/tcp_connection.h"
#include "carafe/comm/tcp_stream.h"
#include "carafe/comm/thread_transport.h"
#include "tests/support/handshake_only.h"
#include "tests/support/transport_messages.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

SocketOptions OnHost(int host) {
  return {.identity = "host " + std::to_string(host), .addresses = {"127.0.0.1"}};
}

void RunTransports(int n, const std::function<SocketOptions(int rank)>& options,
                   const std::function<void(Transport&)>& rank_main) {
  const std::shared_ptr<ThreadHub> hub = MakeThreadHub(n);
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r)
    threads.emplace_back([&, r] {
      const std::unique_ptr<Transport> transport =
          WithSockets(std::make_unique<HandshakeOnly>(MakeThreadTransport(hub, r)), options(r));
      rank_main(*transport);
      transport->Finish();
    });
  for (std::thread& thread : threads) thread.join();
}

void RunTcp(int n, const std::function<void(Transport&)>& rank_main) {
  RunTransports(n, OnHost, rank_main);
}

TEST(TcpTransport, DeliversMessagesOfAnySizeInOrderPerTag) {
  for (int size : {2, 3, 7}) RunTcp(size, SendMessagesOfAnySize);
}
TEST(TcpTransport, SurvivesManyMessagesOfManyTagsInRandomOrder) { RunTcp(3, SendInRandomOrder); }

TEST(TcpTransport, RefusesAMessageOfAnotherSizeAndGoesOn) {
  RunTcp(2, [](Transport& t) {
    std::vector<int> content = Content(40000, 3);
    if (t.rank() == 0) {
      AwaitAll(t, {t.Send(1, 7, content.data(), 40000 * sizeof(int)),
                   t.Send(1, 7, content.data(), 2 * sizeof(int))});
    } else {
      std::vector<int> in(2);
      const Transport::Request wrong = t.Receive(0, 7, content.data(), sizeof(int));
      const Transport::Request right = t.Receive(0, 7, in.data(), 2 * sizeof(int));
      EXPECT_THROW(Await(t, wrong), CommError);
      Await(t, right);
      EXPECT_THAT(in, ElementsAre(3, 4));
    }
  });
}

TEST(TcpTransport, WhoListensToARankThatIsGoneIsTold) {
  std::atomic<bool> gone{false};
  const std::shared_ptr<ThreadHub> hub = MakeThreadHub(2);
  const auto make = [&](int rank) {
    return WithSockets(std::make_unique<HandshakeOnly>(MakeThreadTransport(hub, rank)),
                       OnHost(rank));
  };
  std::thread other([&] {
    make(1).reset();  // without Finish: it has died
    gone = true;
  });
  const std::unique_ptr<Transport> transport = make(0);
  other.join();
  int content = 0;
  const Transport::Request work = transport->Receive(1, 9, &content, sizeof content);
  const Transport::Request control = transport->Receive(1, kControlTag, &content, sizeof content);
  try {
    for (int i = 0; i < 5; ++i) EXPECT_FALSE(transport->Done(work));
    Await(*transport, control);
    FAIL() << "no error";
  } catch (const CommError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the connection to rank 1 is broken: closed"));
  }
  Await(*transport, transport->Send(1, 9, &content, sizeof content));  // is dropped
}

TEST(TcpTransport, AMessageOrABellEndsASleep) {
  RunTcp(2, [](Transport& t) {
    int content = 5;
    if (t.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      Await(t, t.Send(1, 7, &content, sizeof content));
      Await(t, t.Receive(1, 7, &content, sizeof content));
      return;
    }
    const std::shared_ptr<Waiter> waiter = t.capabilities().waiter;
    ASSERT_TRUE(waiter);
    const Transport::Request request = t.Receive(0, 7, &content, sizeof content);
    const auto begin = std::chrono::steady_clock::now();
    while (!t.Done(request)) {
      if (!t.TakeCompletions()) waiter->Wait(1000);
    }
    std::thread waker([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      waiter->Wake();
    });
    waiter->Wait(1000);
    waker.join();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(900));
    Await(t, t.Send(0, 7, &content, sizeof content));
  });
}

TEST(TcpTransport, ReportsRequestsThatCompletedWhileAnotherWasPolled) {
  RunTcp(2, [](Transport& t) {
    int mine[2] = {1, 2};
    int in[2] = {};
    const int other = 1 - t.rank();
    Await(t, t.Send(other, 7, &mine[0], sizeof(int)));
    Await(t, t.Send(other, 8, &mine[1], sizeof(int)));
    const Transport::Request first = t.Receive(other, 7, &in[0], sizeof(int));
    const Transport::Request second = t.Receive(other, 8, &in[1], sizeof(int));
    Await(t, second);
    EXPECT_TRUE(t.TakeCompletions());
    EXPECT_TRUE(t.Done(first));
    EXPECT_FALSE(t.TakeCompletions());
  });
}

// Ranks that go through the inner transport say so by its error.
void ExpectNoSockets(const std::function<SocketOptions(int rank)>& options) {
  RunTransports(3, options, [](Transport& t) {
    int content = 0;
    EXPECT_THROW(t.Send((t.rank() + 1) % 3, 7, &content, sizeof content), std::runtime_error);
    EXPECT_FALSE(t.capabilities().waiter);
  });
}

TEST(TcpTransport, LeavesRanksOfOneHostToTheInnerTransport) {
  ExpectNoSockets([](int) { return OnHost(0); });
  RunTransports(
      3, [](int rank) { return OnHost(rank / 2); },
      [](Transport& t) {
        int content = 4;
        if (t.rank() == 2) {
          AwaitAll(t, {t.Send(0, 7, &content, 4), t.Send(1, 7, &content, 4)});
        } else {
          EXPECT_THROW(t.Send(1 - t.rank(), 7, &content, 4), std::runtime_error);
          Await(t, t.Receive(2, 7, &content, 4));
          EXPECT_FALSE(t.capabilities().waiter) << "a message of the other would not end the wait";
        }
      });
}

TEST(TcpTransport, AsksForNoSocketsWhereOneRankWantsNone) {
  ExpectNoSockets([](int rank) {
    SocketOptions options = OnHost(rank);
    options.wanted = rank != 1;
    return options;
  });
}

TEST(TcpTransport, FallsBackWhereOneRankCannotBeReached) {
  ExpectNoSockets([](int rank) {
    SocketOptions options = OnHost(rank);
    if (rank == 1) options.addresses = {"no address"};
    return options;
  });
}

TEST(TcpTransport, TriesTheNextAddress) {
  RunTransports(
      2,
      [](int rank) {
        SocketOptions options = OnHost(rank);
        options.addresses = {"no address", "127.0.0.1"};
        return options;
      },
      [](Transport& t) {
        const int mine = t.rank();
        int in = -1;
        AwaitAll(t,
                 {t.Send(1 - mine, 7, &mine, sizeof mine), t.Receive(1 - mine, 7, &in, sizeof in)});
        EXPECT_EQ(in, 1 - mine);
      });
}

// The ports on which this process listens.
std::vector<int> OwnPorts() {
  std::vector<int> ports;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::atoi(entry.path().filename().c_str());
    int listens = 0;
    socklen_t size = sizeof listens;
    sockaddr_storage address = {};
    socklen_t length = sizeof address;
    if (getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || !listens ||
        getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length) != 0)
      continue;
    if (address.ss_family == AF_INET6)
      ports.push_back(ntohs(reinterpret_cast<sockaddr_in6*>(&address)->sin6_port));
    if (address.ss_family == AF_INET)
      ports.push_back(ntohs(reinterpret_cast<sockaddr_in*>(&address)->sin_port));
  }
  return ports;
}

// Calls every port of this process before the ranks learn of each other's.
class AmongStrangers final : public WrappedTransport {
 public:
  AmongStrangers(std::unique_ptr<Transport> inner, std::string words, int calls)
      : WrappedTransport(std::move(inner)), words_(std::move(words)), calls_(calls) {}
  ~AmongStrangers() override {
    for (int s : strangers_) close(s);
  }
  Request Send(int to, int tag, const void* data, size_t bytes) override {
    if (tag != kHandshakeTag)
      throw std::runtime_error("a message goes through the inner transport");
    if (strangers_.empty()) Call();
    return inner().Send(to, tag, data, bytes);
  }
  size_t strangers() const { return strangers_.size(); }

 private:
  void Call() {
    for (int port : OwnPorts())
      for (int i = 0; i < calls_; ++i) {
        sockaddr_in to = {};
        to.sin_family = AF_INET;
        to.sin_port = htons(static_cast<uint16_t>(port));
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        strangers_.push_back(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
        connect(strangers_.back(), reinterpret_cast<sockaddr*>(&to), sizeof to);
        std::string words = words_;
        const int32_t claim[] = {2, i};  // from rank 2 to rank i, after 16 bytes of cookie
        if (words.size() >= 24) std::memcpy(words.data() + 16, claim, sizeof claim);
        send(strangers_.back(), words.data(), words.size(), MSG_NOSIGNAL);
      }
  }

  const std::string words_;
  const int calls_;
  std::vector<int> strangers_;
};

TEST(TcpTransport, StrangersWhoCallDoNotKeepRanksApart) {
  // Silent, with half a hello, with a wrong cookie, and with more than that.
  for (const size_t length : {0, 10, 24, 1000}) {
    const std::shared_ptr<ThreadHub> hub = MakeThreadHub(3);
    std::vector<std::thread> threads;
    for (int r = 0; r < 3; ++r)
      threads.emplace_back([&, r] {
        auto among = std::make_unique<AmongStrangers>(MakeThreadTransport(hub, r),
                                                      std::string(length, '\0'), 2);
        const AmongStrangers& strangers = *among;
        const std::unique_ptr<Transport> transport = WithSockets(std::move(among), OnHost(r));
        EXPECT_GT(strangers.strangers(), 0U);
        EXPECT_TRUE(transport->capabilities().waiter) << "these ranks have no sockets";
        SendMessagesOfAnySize(*transport);
        transport->Finish();
      });
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(TcpTransport, UsesIpVersionSixToo) {
  const int s = socket(AF_INET6, SOCK_STREAM, 0);
  sockaddr_in6 here = {};
  here.sin6_family = AF_INET6;
  here.sin6_addr = in6addr_loopback;
  const bool can = bind(s, reinterpret_cast<sockaddr*>(&here), sizeof here) == 0;
  close(s);
  if (!can) GTEST_SKIP() << "this system has no IPv6";
  RunTransports(
      2,
      [](int rank) {
        SocketOptions options = OnHost(rank);
        options.addresses = {"::1"};
        return options;
      },
      SendMessagesOfAnySize);
}

TEST(TcpTransport, AListenerOnChosenAddressesTakesNoConnectionThroughOthers) {
  int port = 0;
  const std::vector<Descriptor> listeners = ListenOn({"no address", "127.0.0.1"}, 4, &port);
  ASSERT_EQ(listeners.size(), 1u);
  std::string problem;
  EXPECT_GE(Connect("127.0.0.1", port, &problem).get(), 0) << problem;
  EXPECT_LT(Connect("127.0.0.2", port, &problem).get(), 0) << "also an address of this host";
  EXPECT_TRUE(ListenOn({"no address"}, 4, &port).empty());
}

TEST(TcpTransport, TheEnvironmentChooses) {
  setenv("CARAFE_TCP", "off", 1);
  EXPECT_FALSE(SocketOptionsOfEnvironment().wanted);
  setenv("CARAFE_TCP", "on", 1);
  EXPECT_TRUE(SocketOptionsOfEnvironment().wanted);
  setenv("CARAFE_TCP", "eth77", 1);
  try {
    SocketOptionsOfEnvironment();
    FAIL() << "eth77 is not there";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("CARAFE_TCP is \"eth77\""));
    EXPECT_THAT(error.what(), HasSubstr("fix: set it to"));
  }
  unsetenv("CARAFE_TCP");
}

class Recorder : public StreamEvents {
 public:
  void OnDone(uint64_t request) override { done.push_back(request); }
  void OnFailed(uint64_t request, const std::string&) override { failed.push_back(request); }
  std::vector<uint64_t> done, failed;
};

TEST(TcpStream, BreaksAtSomethingThatIsNotAMessage) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  Recorder events;
  TcpStream stream(ends[0], 0, 3, events);
  const std::string noise(100, 'x');
  ASSERT_EQ(write(ends[1], noise.data(), noise.size()), ssize_t{100});
  stream.Read();
  EXPECT_EQ(stream.broken(), "rank 3 sent something that is not a message");
  int content = 0;
  stream.Send(7, 1, &content, sizeof content);
  EXPECT_THAT(events.done, ElementsAre(7));
  close(ends[0]);
  close(ends[1]);
}

TEST(TcpStream, WaitsAMomentForTheReceiveOfTheNextMessage) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  Recorder events;
  TcpStream from(ends[0], 0, 1, events), to(ends[1], 1, 0, events);
  int header = 1, payload = 2, in[2] = {};
  from.Send(1, 10, &header, sizeof header);
  from.Send(2, 11, &payload, sizeof payload);
  from.Flush();
  to.Receive({.request = 3, .tag = 10, .data = reinterpret_cast<char*>(&in[0]), .bytes = 4});
  to.Read();
  EXPECT_TRUE(to.stalled());
  to.Receive({.request = 4, .tag = 11, .data = reinterpret_cast<char*>(&in[1]), .bytes = 4});
  EXPECT_FALSE(to.stalled());
  EXPECT_THAT(events.done, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(in, ElementsAre(1, 2));
  close(ends[0]);
  close(ends[1]);
}

TEST(TransferRate, IsThatOfTheTimesInWhichMoreIsWaiting) {
  TransferRate rate;
  rate.Update(0, 0, false);
  rate.Update(1, 1000, false);
  EXPECT_EQ(rate.rate(), 0);
  rate.Update(2, 1000, true);
  rate.Update(2.5, 2000, true);
  EXPECT_DOUBLE_EQ(rate.rate(), 2000);
  rate.Update(3.0, 9000, false);  // nothing waited: the line had time
  EXPECT_DOUBLE_EQ(rate.rate(), 2000);
  rate.Update(4, 9000, true);
  rate.Update(5, 10000, true);
  EXPECT_DOUBLE_EQ(rate.rate(), 1800);
}

}  // namespace
}  // namespace carafe
