#include "carafe/comm/restart_policy.h"

#include <gtest/gtest.h>

namespace carafe {
namespace {

constexpr AttemptEnd kProgress{.code = 1, .progressed = true};
constexpr AttemptEnd kInVain{.code = 137};

TEST(RestartPolicy, GoesOnAsOftenAsPermitted) {
  RestartPolicy policy(/*restarts=*/2);
  EXPECT_EQ(policy.Next(kProgress), 1);
  EXPECT_EQ(policy.Next(kProgress), 1);
  EXPECT_FALSE(policy.Next(kProgress));
  EXPECT_EQ(policy.reason(), "all restarts that --restarts permits are used up");
}

TEST(RestartPolicy, DoesNotRestartWhatHasEndedWellOrOnRequest) {
  for (const AttemptEnd& end :
       {AttemptEnd{.code = 0}, AttemptEnd{.code = 75}, AttemptEnd{.code = 130, .stopped = true}}) {
    RestartPolicy policy(5);
    EXPECT_FALSE(policy.Next(end));
    EXPECT_EQ(policy.reason(), "");
  }
}

TEST(RestartPolicy, DoesNotRepeatAnErrorOfSettings) {
  RestartPolicy policy(5);
  EXPECT_FALSE(policy.Next({.code = 1, .would_repeat = true, .progressed = true}));
  EXPECT_EQ(policy.reason(), "the error above would come again");
}

TEST(RestartPolicy, WaitsLongerWhileThereIsNoProgressAndThenGivesUp) {
  RestartPolicy policy(100);
  EXPECT_EQ(policy.Next(kInVain), 2);
  EXPECT_EQ(policy.Next(kInVain), 4);
  EXPECT_EQ(policy.Next(kProgress), 1) << "a snapshot resets the count";
  EXPECT_EQ(policy.Next(kInVain), 2);
  EXPECT_EQ(policy.Next(kInVain), 4);
  EXPECT_FALSE(policy.Next(kInVain));
  EXPECT_EQ(policy.reason(), "3 attempts in a row wrote no snapshot");
}

}  // namespace
}  // namespace carafe
