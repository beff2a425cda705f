#include "carafe/comm/control.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "carafe/comm/thread_transport.h"

namespace carafe {
namespace {

// All ranks in one thread, with the time of the test.
class Ring {
 public:
  explicit Ring(int size) : waits(size), hub_(MakeThreadHub(size)) {
    for (int r = 0; r < size; ++r) {
      transports.push_back(MakeThreadTransport(hub_, r));
      controls.push_back(
          std::make_unique<Control>(*transports.back(), timeouts, [this, r] { return waits[r]; }));
    }
    Poll(0);
  }
  ~Ring() { controls.clear(); }
  void Poll(double now) {  // twice: the second round receives what the first one sent
    for (int round = 0; round < 2; ++round)
      for (const auto& control : controls)
        if (control) control->Poll(now);
  }
  CommTimeouts timeouts;
  std::vector<std::vector<int>> waits;  // by rank, for others
  std::vector<std::unique_ptr<Transport>> transports;
  std::vector<std::unique_ptr<Control>> controls;

 private:
  std::shared_ptr<ThreadHub> hub_;
};

TEST(Control, GreetsAndLearnsTheHosts) {
  Ring ring(3);
  for (const auto& control : ring.controls) {
    EXPECT_TRUE(control->complete());
    EXPECT_EQ(control->host(2), "thread2");
  }
}

TEST(Control, HeartbeatsKeepAQuietGroupAlive) {
  Ring ring(3);
  for (double now = 0; now < 60; now += 0.5) ring.Poll(now);
  for (const auto& control : ring.controls) EXPECT_FALSE(control->failure());
}

TEST(Control, NamesARankThatIsSilentForTenSeconds) {
  Ring ring(3);
  for (double now = 0; now < 12; now += 0.5) {
    for (int round = 0; round < 2; ++round)
      for (int r : {0, 2}) ring.controls[r]->Poll(now);
    if (now < 10) {
      ASSERT_FALSE(ring.controls[0]->failure());
    }
    if (now == 2) {
      EXPECT_EQ(ring.controls[0]->EndOfWaits({2}), std::vector<int>{2});
    }
    if (now == 3) {
      EXPECT_EQ(ring.controls[0]->EndOfWaits({2}), std::vector<int>{1});
    }
  }
  for (int r : {0, 2}) {
    ASSERT_TRUE(ring.controls[r]->failure());
    EXPECT_EQ(ring.controls[r]->failure()->rank, 1);
    EXPECT_TRUE(ring.controls[r]->failure()->dead);
  }
}

TEST(Control, FollowsWaitsToTheRankThatWaitsForNobody) {
  Ring ring(6);
  ring.waits = {{1, 2}, {3}, {1, 0}, {4}, {}, {2, 4}};
  ring.Poll(1.1);
  EXPECT_EQ(ring.controls[0]->EndOfWaits({1, 2}), std::vector<int>{4});
  EXPECT_EQ(ring.controls[0]->EndOfWaits({5, 4}), std::vector<int>{4});
  EXPECT_EQ(ring.controls[0]->EndOfWaits({}), std::vector<int>{});
  ring.waits[4] = {1};
  ring.Poll(2.2);
  EXPECT_EQ(ring.controls[0]->EndOfWaits({1, 2}), (std::vector<int>{1, 2})) << "a circle";
}

TEST(Control, UrgentHeartbeatsUpdateTheWaitsSoon) {
  Ring ring(3);
  ring.waits = {{1}, {2}, {}};
  ring.Poll(1.1);
  EXPECT_EQ(ring.controls[0]->EndOfWaits({1}), std::vector<int>{2});
  ring.waits[1] = {};
  for (const auto& control : ring.controls) control->SetUrgent(true);
  EXPECT_EQ(ring.controls[0]->EndOfWaits({1}), std::vector<int>{1}) << "that may be over";
  ring.waits[1] = {2};
  ring.Poll(1.25);
  EXPECT_EQ(ring.controls[0]->EndOfWaits({1}), std::vector<int>{2});
}

TEST(Control, InAHurryThreeMissedHeartbeatsAreSilenceEnough) {
  Ring ring(2);
  ring.controls[0]->SetUrgent(true);
  for (double now = 0; now < 3; now += 0.5) ring.controls[0]->Poll(now);
  ASSERT_FALSE(ring.controls[0]->failure());
  ring.controls[0]->Poll(3.5);
  ASSERT_TRUE(ring.controls[0]->failure());
  EXPECT_EQ(ring.controls[0]->failure()->rank, 1);
}

TEST(Control, ForgivesAPauseOfTheWholeJob) {
  Ring ring(2);
  ring.Poll(1);
  ring.Poll(1000);
  for (double now = 1000; now < 1010; now += 0.5) ring.Poll(now);
  EXPECT_FALSE(ring.controls[0]->failure());
}

TEST(Control, CarriesAFailureAndItsTextToAll) {
  Ring ring(4);
  ring.controls[2]->Fail({2, false, "disk full"});
  ring.controls[2]->Fail({2, false, "second thoughts"});
  ring.Poll(0.1);
  for (const auto& control : ring.controls) {
    ASSERT_TRUE(control->failure());
    EXPECT_EQ(control->failure()->rank, 2);
    EXPECT_EQ(control->failure()->text, "disk full");
  }
  EXPECT_FALSE(ring.controls[2]->AllAcknowledged());
  for (int r : {0, 1, 3}) ring.controls[r]->Acknowledge();
  ring.Poll(0.2);
  EXPECT_TRUE(ring.controls[2]->AllAcknowledged());
}

TEST(Control, AbruptEndOfARankIsALoss) {
  Ring ring(3);
  ring.controls[1].reset();
  ring.transports[1].reset();
  ring.Poll(0.1);
  ASSERT_TRUE(ring.controls[0]->failure());
  EXPECT_EQ(ring.controls[0]->failure()->rank, 1);
  EXPECT_TRUE(ring.controls[0]->failure()->dead);
}

TEST(Control, LeavesInGoodOrderHoweverLongTheLastOneTakes) {
  Ring ring(3);
  ring.controls[0]->Leave();
  for (double now = 0; now < 40; now += 0.5) ring.Poll(now);
  EXPECT_FALSE(ring.controls[0]->AllLeft());
  ring.controls[1]->Leave();
  ring.controls[2]->Leave();
  ring.Poll(41);
  for (const auto& control : ring.controls) {
    EXPECT_FALSE(control->failure());
    EXPECT_TRUE(control->AllLeft());
    EXPECT_TRUE(control->AllSent());
  }
}

TEST(Control, AnnouncesLongWork) {
  Ring ring(2);
  ring.controls[0]->Announce("a test");
  ring.Poll(0.1);
  EXPECT_TRUE(ring.controls[1]->AnyBusy());
  EXPECT_FALSE(ring.controls[0]->AnyBusy());
  ring.controls[0]->Announce("");
  ring.Poll(0.2);
  EXPECT_FALSE(ring.controls[1]->AnyBusy());
}

}  // namespace
}  // namespace carafe
