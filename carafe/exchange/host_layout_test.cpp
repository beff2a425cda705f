#include "carafe/exchange/host_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "carafe/exchange/rank_group.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

TEST(HostLayout, NumbersHostsByTheirFirstRanks) {
  const HostLayout layout({"b", "a", "b", "c", "a"});
  EXPECT_EQ(layout.hosts(), 3);
  EXPECT_THAT(layout.ranks(0), ElementsAre(0, 2));
  EXPECT_THAT(layout.ranks(1), ElementsAre(1, 4));
  EXPECT_THAT(layout.ranks(2), ElementsAre(3));
  EXPECT_EQ(layout.host_of(4), 1);
  EXPECT_EQ(layout.fewest(), 1);
  EXPECT_EQ(layout.most(), 2);
  EXPECT_EQ(layout.Describe(), "each host of 1 to 2 ranks");
  EXPECT_EQ(layout.text(), "0 1 0 2 1");
}

TEST(HostLayout, SavesBytesWhereAHostOfSeveralHasSeveralRanks) {
  EXPECT_FALSE(HostLayout().saves_bytes());
  EXPECT_FALSE(HostLayout::Even(3, 1).saves_bytes());
  EXPECT_EQ(HostLayout::Even(3, 1).text(), "flat");
  EXPECT_FALSE(HostLayout::Even(3, 3).saves_bytes());
  EXPECT_TRUE(HostLayout::Even(3, 3).one_host());
  EXPECT_TRUE(HostLayout::Even(3, 2).saves_bytes());
}

TEST(HostLayout, IsTheTreeOverAllRanksWhereHostsAreAlignedPowersOfTwo) {
  EXPECT_TRUE(HostLayout().is_rank_tree());
  EXPECT_TRUE(HostLayout::Even(6, 1).is_rank_tree());
  EXPECT_TRUE(HostLayout::Even(6, 6).is_rank_tree());
  EXPECT_TRUE(HostLayout::Even(8, 2).is_rank_tree());
  EXPECT_TRUE(HostLayout::Even(7, 4).is_rank_tree());
  EXPECT_FALSE(HostLayout::Even(6, 3).is_rank_tree());
  EXPECT_FALSE(HostLayout::Even(8, 3).is_rank_tree());
  EXPECT_FALSE(HostLayout({"a", "b", "a", "b"}).is_rank_tree());
  EXPECT_FALSE(HostLayout({"a", "b", "b"}).is_rank_tree());
  EXPECT_FALSE(HostLayout({"a", "a", "b", "c", "c"}).is_rank_tree());
  EXPECT_FALSE(HostLayout({"a", "a", "b", "b", "b", "b"}).is_rank_tree());
}

TEST(RankGroup, FindsItsMembers) {
  for (const RankGroup& group : {RankGroup::Of({1, 3, 5}), RankGroup{1, 2, 3}}) {
    EXPECT_EQ(group.list, nullptr) << "a progression";
    EXPECT_EQ(group.count, 3);
    EXPECT_EQ(group.at(2), 5);
    EXPECT_EQ(group.IndexOf(3), 1);
    EXPECT_FALSE(group.Has(0));
    EXPECT_FALSE(group.Has(2));
    EXPECT_FALSE(group.Has(7));
  }
  const RankGroup any = RankGroup::Of({4, 0, 5});
  EXPECT_EQ(any.count, 3);
  EXPECT_EQ(any.at(0), 4);
  EXPECT_EQ(any.IndexOf(0), 1);
  EXPECT_FALSE(any.Has(1));
  const RankGroup trees = RankGroup::InTreesOf(HostLayout({"a", "b", "a"}));
  EXPECT_THAT(trees.list->ranks, ElementsAre(0, 2, 1));
  EXPECT_THAT(trees.list->subtrees, ElementsAre(2, 1));
}

}  // namespace
}  // namespace carafe
