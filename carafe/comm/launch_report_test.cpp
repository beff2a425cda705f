#include "carafe/comm/launch_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace carafe {
namespace {

TEST(LaunchReports, ArriveWithTheKeyAndAreIgnoredWithout) {
  LaunchReports reports({"no address", "127.0.0.1"});
  ASSERT_NE(reports.variable(), "");
  std::string forged = reports.variable();
  forged[0] = forged[0] == '0' ? '1' : '0';
  setenv(kLaunchVariable, forged.c_str(), 1);
  ReportToLauncher({.ended = true, .rank = 9, .host = "elsewhere"});
  setenv(kLaunchVariable, reports.variable().c_str(), 1);
  ReportToLauncher({.ended = true, .rank = 3, .code = 75, .host = "node3"});
  unsetenv(kLaunchVariable);
  ReportToLauncher({.rank = 8});  // of a process that nobody launched
  std::vector<RankReport> received;
  while (received.empty()) received = reports.Receive(10);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_TRUE(received[0].ended);
  EXPECT_EQ(received[0].rank, 3);
  EXPECT_EQ(received[0].code, 75);
  EXPECT_EQ(received[0].host, "node3");
  EXPECT_TRUE(reports.Receive(0).empty());
  EXPECT_EQ(LaunchReports({"no address"}).variable(), "");
}

TEST(JobEnd, NamesTheRankThatIsMissingWhenItsTimeIsUp) {
  JobEnd job(3, /*wait=*/60);
  for (const int rank : {0, 1}) job.Add({.rank = rank, .host = "a"}, 5);
  EXPECT_EQ(job.Late(1e6), "") << "none has ended: it may train for days";
  job.Add({.ended = true, .rank = 0, .code = 0, .host = "a"}, 100);
  EXPECT_EQ(job.Late(169), "");
  EXPECT_EQ(job.Late(171),
            "rank 1 on a, rank 2, which has not started, has not ended, although rank 0 on a has "
            "(with code 0)");
  job.Add({.ended = true, .rank = 2, .code = 1, .host = "b"}, 110);
  EXPECT_EQ(job.Late(119), "");
  EXPECT_EQ(job.Late(121), "rank 1 on a has not ended, although rank 0 on a has (with code 0)")
      << "after an error nothing is waited for";
  job.Add({.ended = true, .rank = 1, .code = 0, .host = "a"}, 121);
  EXPECT_EQ(job.Late(1e6), "") << "none is missing";
  EXPECT_FALSE(job.Code(130));
  EXPECT_EQ(job.Code(132), 1) << "mpirun has had its time";
}

TEST(JobEnd, CountsTheRanksThatHaveStartedWhereMpirunChoosesTheirNumber) {
  JobEnd job(/*ranks=*/0, /*wait=*/60);
  EXPECT_FALSE(job.Code(1e6)) << "none has started";
  for (const int rank : {0, 1}) job.Add({.rank = rank, .host = "a"}, 5);
  EXPECT_FALSE(job.Code(1e6)) << "both are training";
  EXPECT_EQ(job.Late(1e6), "");
  job.Add({.ended = true, .rank = 1, .code = 1, .host = "a"}, 100);
  EXPECT_EQ(job.Late(111), "rank 0 on a has not ended, although rank 1 on a has (with code 1)");
  job.Add({.ended = true, .rank = 0, .code = 1, .host = "a"}, 111);
  EXPECT_EQ(job.Code(122), 1);
}

TEST(JobEnd, BlamesTheRankThatIsMissingElseTheFirstThatFailed) {
  JobEnd job(/*ranks=*/3, /*wait=*/60);
  for (const int rank : {0, 1, 2}) job.Add({.rank = rank, .host = "a"}, 1);
  job.Add({.ended = true, .rank = 2, .code = 0, .host = "a"}, 5);
  job.Add({.ended = true, .rank = 1, .code = 1, .host = "a"}, 6);
  EXPECT_EQ(job.Culprit(), "rank 0 on a") << "it was killed, and the others noticed";
  JobEnd early = job;
  early.Add({.rank = 0, .host = "a", .failing = true}, 6);
  EXPECT_EQ(early.Culprit(), "rank 1 on a") << "rank 0 fails, too, and will end";
  EXPECT_FALSE(job.would_repeat());
  job.Add({.ended = true, .rank = 0, .code = 1, .host = "a", .would_repeat = true}, 7);
  EXPECT_EQ(job.Culprit(), "rank 1 on a");
  EXPECT_TRUE(job.would_repeat());
}

TEST(JobEnd, BlamesARankThatHasNotStarted) {
  JobEnd job(/*ranks=*/2, /*wait=*/60);
  job.Add({.ended = true, .rank = 0, .code = 1, .host = "a"}, 5);
  EXPECT_EQ(job.Culprit(), "rank 1 (not started)");
}

TEST(JobEnd, BlamesNobodyWhenAllIsWell) {
  JobEnd job(/*ranks=*/1, /*wait=*/60);
  EXPECT_EQ(job.Culprit(), "");
  job.Add({.ended = true, .rank = 0, .code = 0, .host = "a"}, 5);
  EXPECT_EQ(job.Culprit(), "");
}

}  // namespace
}  // namespace carafe
