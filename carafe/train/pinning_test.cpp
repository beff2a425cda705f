#include "carafe/train/pinning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace carafe {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<RankCores> Ranks(const std::string& host, size_t count, const std::vector<int>& cores) {
  return std::vector<RankCores>(count, {host, cores});
}

TEST(SharesOfCores, DivideTheCoresOfAHost) {
  EXPECT_THAT(SharesOfCores(Ranks("a", 2, {0, 1, 2, 3})),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_THAT(SharesOfCores(Ranks("a", 1, {3, 5})), ElementsAre(ElementsAre(3, 5)));
}

TEST(SharesOfCores, AreUnevenWhereTheRanksDoNotDivideTheCores) {
  EXPECT_THAT(SharesOfCores(Ranks("a", 3, {1, 2, 4, 5, 6, 7, 9})),
              ElementsAre(ElementsAre(1, 2), ElementsAre(4, 5), ElementsAre(6, 7, 9)));
}

TEST(SharesOfCores, AreNeverEmptyAndMissNoCore) {
  for (size_t cores = 1; cores <= 12; ++cores) {
    std::vector<int> all(cores);
    std::iota(all.begin(), all.end(), 20);
    for (size_t ranks = 1; ranks <= cores; ++ranks) {
      std::vector<int> joined;
      for (const std::vector<int>& share : SharesOfCores(Ranks("a", ranks, all))) {
        EXPECT_GE(share.size(), cores / ranks);
        joined.insert(joined.end(), share.begin(), share.end());
      }
      EXPECT_EQ(joined, all) << ranks << " ranks";
    }
  }
}

TEST(SharesOfCores, GoRoundWhereRanksOutnumberCores) {
  EXPECT_THAT(
      SharesOfCores(Ranks("a", 5, {0, 7})),
      ElementsAre(ElementsAre(0), ElementsAre(7), ElementsAre(0), ElementsAre(7), ElementsAre(0)));
}

TEST(SharesOfCores, LeaveAloneWhatTheLauncherHasToldApart) {
  EXPECT_THAT(SharesOfCores({{"a", {0, 1}}, {"a", {2, 3}}, {"a", {0, 1}}}),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(0, 1)));
  EXPECT_THAT(SharesOfCores({{"a", {0, 1, 2}}, {"a", {0, 1}}}),
              ElementsAre(ElementsAre(0, 1, 2), ElementsAre(0, 1)));
}

TEST(SharesOfCores, AreThoseOfEachHostByItself) {
  // Ranks dealt over hosts in turn; b's are pinned already.
  EXPECT_THAT(SharesOfCores({{"a", {0, 1}}, {"b", {0}}, {"a", {0, 1}}, {"b", {1}}}),
              ElementsAre(ElementsAre(0), ElementsAre(0), ElementsAre(1), ElementsAre(1)));
}

TEST(SharesOfCores, ChangeNothingWhereNothingIsKnown) {
  EXPECT_THAT(SharesOfCores(Ranks("a", 2, {})), ElementsAre(ElementsAre(), ElementsAre()));
}

TEST(DescribePins, SaysWhoWasPinnedAndWhoNot) {
  const std::vector<RankCores> ranks = {
      {"a", {0, 1, 2, 3}}, {"a", {0, 1, 2, 3}}, {"b", {0}}, {"b", {1}}};
  EXPECT_THAT(DescribePins(ranks, SharesOfCores(ranks)),
              AllOf(HasSubstr("2 of 4 ranks"), HasSubstr("(rank 0: 0-1 of 0-3)"),
                    HasSubstr("on b nothing is changed, for the launcher"),
                    HasSubstr("(rank 2: 0, rank 3: 1)"), Not(HasSubstr("on a"))));
}

TEST(CoreList, WritesRanges) {
  EXPECT_EQ(CoreList({}), "");
  EXPECT_EQ(CoreList({4}), "4");
  EXPECT_EQ(CoreList({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
}

}  // namespace
}  // namespace carafe
