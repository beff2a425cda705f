#include "carafe/train/step_stats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "carafe/base/error.h"
#include "carafe/base/file.h"
#include "carafe/comm/run_ranks.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(HiddenShare, IsTheShareOfCommunicationThatNobodyWaitedFor) {
  EXPECT_EQ(HiddenShare({.comm_wait = 1, .comm_busy = 4}), 0.75);
  EXPECT_EQ(HiddenShare({.comm_wait = 5, .comm_busy = 4}), 0);
  EXPECT_EQ(HiddenShare({.comm_wait = 0, .comm_busy = 0}), 1);
}

TEST(StepStats, WritesARowPerRankAndNamesTheSlowest) {
  const TestFolder folder;
  const std::string path = folder / "stats.csv";
  RunRanks(2, [&](Group& group) {
    StepStats stats(path, group);
    for (int i = 0; i < 4; ++i)
      stats.Add(i, {.seconds = 0.25,
                    .ready = (i == 0) == (group.rank() == 0) ? 0.2 : 0.1,
                    .comm_wait = 0.05,
                    .comm_busy = 0.1,
                    .bytes_sent = 2e6});
    if (group.rank() != 0) return;
    EXPECT_THAT(stats.Summary(), AllOf(HasSubstr("250 ms"), HasSubstr("2 MB sent"),
                                       HasSubstr("50% of the communication hidden"),
                                       HasSubstr("rank 1 on"), HasSubstr("in 75%")));
  });
  const std::string text = ReadFile(path);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1 + 4 * 2);
  EXPECT_THAT(text, HasSubstr("\n3,1,"));
}

TEST(StepStats, AFileThatCannotBeWrittenIsAnError) {
  RunRanks(1,
           [](Group& group) { EXPECT_THROW(StepStats("/nowhere/stats.csv", group), DataError); });
}

}  // namespace
}  // namespace carafe
