#include "carafe/train/rank_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "carafe/comm/run_ranks.h"

namespace carafe {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

RankFacts Facts(const std::string& host, int cores, int threads, int64_t rows) {
  return {host, "CPU", cores, 8, threads, rows};
}

TEST(RankTable, PutsLikeRanksInOneRow) {
  EXPECT_THAT(RankTable({Facts("a", 8, 4, 16), Facts("a", 8, 4, 16), Facts("b", 8, 8, 15)}),
              ElementsAre("  rank  host  device  cores   threads  batch",
                          "  0-1   a     CPU     8 of 8  4        16",
                          "  2     b     CPU     8 of 8  8        15"));
}

TEST(RankTable, IsGatheredFromAllRanks) {
  RunRanks(3, [](Group& group) {
    const Stream stream(CpuDevice(), group.rank() + 1);
    const auto ranks = GatherFacts(group, MyFacts(group, stream, 10 + group.rank()));
    ASSERT_EQ(ranks.size(), 3u);
    EXPECT_EQ(ranks[2].threads, 3);
    EXPECT_EQ(ranks[1].rows, 11);
    EXPECT_GE(ranks[0].cores, 1);
  });
}

TEST(PinningAdvice, NamesARankWithMoreThreadsThanCores) {
  const std::vector<RankFacts> ranks = {Facts("a", 8, 8, 1), Facts("b", 1, 4, 1),
                                        Facts("b", 1, 4, 1)};
  EXPECT_THAT(PinningAdvice(ranks, false),
              AllOf(HasSubstr("2 of 3 ranks"), HasSubstr("rank 1 on b: 4 threads on 1 of 8 cores"),
                    HasSubstr("--bind-to none")));
  EXPECT_THAT(PinningAdvice(ranks, true), AllOf(HasSubstr("rank 1 on b: 4 threads on 1 of 8 cores"),
                                                HasSubstr("--pin"), Not(HasSubstr("--bind-to"))));
}

TEST(PinningAdvice, IsSilentWithoutPins) {
  EXPECT_EQ(PinningAdvice({Facts("a", 8, 8, 1), Facts("b", 4, 4, 1)}, false), "");
  EXPECT_EQ(PinningAdvice({Facts("a", 8, 16, 1)}, false),
            "");  // too many threads, but nothing pinned
}

}  // namespace
}  // namespace carafe
