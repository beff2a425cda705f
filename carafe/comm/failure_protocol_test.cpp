#include "carafe/comm/failure_protocol.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "carafe/comm/clock.h"
#include "carafe/comm/thread_transport.h"

namespace carafe {
namespace {

const CommTimeouts kTimeouts{.heartbeat = 0.05, .silence = 100, .wait = 100, .farewell = 100};

// Every rank in a thread, with its transport and its protocol after Start.
void RunProtocols(int n, const std::function<void(Transport&, FailureProtocol&)>& rank_main) {
  const std::shared_ptr<ThreadHub> hub = MakeThreadHub(n);
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r)
    threads.emplace_back([&, r] {
      int published = 0;
      std::unique_ptr<FailureProtocol> protocol;  // outlives the transport, which uses its memory
      const std::unique_ptr<Transport> transport = MakeThreadTransport(hub, r);
      protocol = std::make_unique<FailureProtocol>(
          *transport, kTimeouts, [] { return std::vector<int>(); }, [&] { ++published; });
      EXPECT_EQ(protocol->Start().size(), static_cast<size_t>(n));
      rank_main(*transport, *protocol);
      EXPECT_EQ(published, protocol->failed() ? 1 : 0);
      transport->Finish();
    });
  for (std::thread& thread : threads) thread.join();
}

void AwaitFailure(FailureProtocol& protocol) {
  while (!protocol.has_failure()) protocol.Poll(Now());
  protocol.Publish();
}

TEST(FailureProtocol, RankZeroReportsTheFailureOfAnotherRank) {
  std::atomic<int> reports{0};
  RunProtocols(3, [&](Transport& t, FailureProtocol& protocol) {
    if (t.rank() != 2) {
      AwaitFailure(protocol);
      protocol.Acknowledge();
    }
    if (protocol.FailAndChooseReporter("disk full")) {
      EXPECT_EQ(t.rank(), 0);
      ++reports;
      protocol.Reported();
    }
    EXPECT_EQ(protocol.failure()->rank, 2);
    EXPECT_EQ(protocol.failure()->text, "disk full");
    EXPECT_FALSE(protocol.failure()->dead);
    EXPECT_FALSE(protocol.Leave()) << "a failed group does not finish its transport";
  });
  EXPECT_EQ(reports, 1);
}

TEST(FailureProtocol, RanksThatAreDoneLeaveTogether) {
  RunProtocols(3, [](Transport& t, FailureProtocol& protocol) {
    protocol.AnnounceWork(t.rank() == 1 ? "a test" : "");
    EXPECT_TRUE(protocol.Leave());
    EXPECT_FALSE(protocol.failed());
  });
}

TEST(FailureProtocol, SendsNothingAfterTheTransportIsLost) {
  RunProtocols(2, [](Transport& t, FailureProtocol& protocol) {
    if (t.rank() == 1) {
      AwaitFailure(protocol);
      EXPECT_EQ(protocol.failure()->text, "ended early");
      return;
    }
    protocol.Fail("ended early");
    protocol.OnTransportLost();
    protocol.Publish();
    protocol.AnnounceWork("a test");
    protocol.Acknowledge();
    protocol.Fail("again");
    EXPECT_FALSE(protocol.Poll(Now()));
    EXPECT_FALSE(protocol.Leave());
    EXPECT_TRUE(protocol.FailAndChooseReporter("again")) << "it is this rank that failed";
    EXPECT_EQ(protocol.failure()->text, "ended early");
  });
}

TEST(FailureProtocol, NamesRanksWithTheirHosts) {
  RunProtocols(2, [](Transport&, FailureProtocol& protocol) {
    EXPECT_EQ(protocol.Names({0, 1}), "rank 0 on thread0, rank 1 on thread1");
    EXPECT_EQ(protocol.Names({}), "the others to receive what was sent");
    EXPECT_TRUE(protocol.Leave());
  });
}

}  // namespace
}  // namespace carafe
