#include "carafe/exchange/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "carafe/comm/run_ranks.h"
#include "carafe/exchange/exchange.h"
#include "tests/support/param_arena.h"

namespace carafe {
namespace {

TEST(Plan, FillsBucketsInTheOrderOfTheBackwardPass) {
  Arena<float> arena({100, 50, 30, 20});
  const Plan plan = MakePlan<float>(arena.params, 50 * sizeof(float));
  ASSERT_EQ(plan.buckets.size(), 3u);
  EXPECT_THAT(plan.buckets[0].params, ::testing::ElementsAre(3, 2));
  EXPECT_THAT(plan.buckets[1].params, ::testing::ElementsAre(1));
  EXPECT_THAT(plan.buckets[2].params, ::testing::ElementsAre(0));
  EXPECT_EQ(plan.buckets[0].count, 50);
  EXPECT_THAT(plan.bucket_of, ::testing::ElementsAre(2, 1, 0, 0));
}

TEST(Plan, TakesAsManyParametersPerBucketAsItIsTold) {
  Arena<float> arena({100, 50, 30, 20});
  const std::vector<int> sizes = {1, 3};
  const Plan plan = MakePlan<float>(arena.params, 1, sizes);
  ASSERT_EQ(plan.buckets.size(), 2u);
  EXPECT_THAT(plan.buckets[0].params, ::testing::ElementsAre(3));
  EXPECT_THAT(plan.buckets[1].params, ::testing::ElementsAre(2, 1, 0));
}

TEST(Plan, MergesWhatIsReadyWhileTheLineIsBusyAndLeavesTheRest) {
  const std::vector<int64_t> bytes = {100, 100, 100, 100};
  // Nothing costs but the start: what is ready at once goes at once.
  EXPECT_THAT(MergeForEarliestEnd(std::vector<double>{0, 0, 0, 0}, bytes, {.latency = 1}),
              ::testing::ElementsAre(4));
  // Far apart, each goes when it is ready.
  EXPECT_THAT(MergeForEarliestEnd(std::vector<double>{0, 10, 20, 30}, bytes,
                                  {.latency = 1, .per_byte = 0.01}),
              ::testing::ElementsAre(1, 1, 1, 1));
  // Without latency there is nothing to save.
  EXPECT_THAT(MergeForEarliestEnd(std::vector<double>{0, 0, 0, 0}, bytes, {.per_byte = 0.01}),
              ::testing::ElementsAre(1, 1, 1, 1));
  // The first alone while the others are computed, those together: 2 + max(2, 3) + 1 + 3.
  EXPECT_THAT(
      MergeForEarliestEnd(std::vector<double>{0, 3, 3, 3}, bytes, {.latency = 1, .per_byte = 0.01}),
      ::testing::ElementsAre(1, 3));
  // The next forward pass begins with the last piece, and does not wait for 10,000 bytes.
  EXPECT_THAT(
      MergeForEarliestEnd(std::vector<double>{0, 0, 0}, std::vector<int64_t>{100, 10000, 100},
                          {.latency = 1, .per_byte = 0.01}),
      ::testing::ElementsAre(1, 1, 1));
  EXPECT_TRUE(MergeForEarliestEnd({}, {}, {.latency = 1}).empty());
}

TEST(Plan, BucketsPlannedFromAMeasurementAreTheSameOnAllRanks) {
  std::vector<std::vector<int>> sizes(3);
  RunRanks(3, [&](Group& group) {
    Arena<float> arena({10, 2000, 5, 40});
    const SumCost cost = MeasureSumCost(group, "allreduce", {});
    EXPECT_GT(cost.latency, 0);
    const std::vector<double> ready = {0.4 * group.rank(), 0.3, 0.2, 0.1};
    sizes[static_cast<size_t>(group.rank())] = PlanBuckets<float>(group, arena.params, ready, cost);
  });
  EXPECT_EQ(sizes[1], sizes[0]);
  EXPECT_EQ(sizes[2], sizes[0]);
}

TEST(Plan, MessagesFillTheLineWithoutQueueingUp) {
  EXPECT_EQ(MessageBytesFor({.per_byte = 1 / 0.119e9}), size_t{32} << 10);  // 1 Gbit/s
  EXPECT_EQ(MessageBytesFor({.per_byte = 1 / 0.3e9}), size_t{128} << 10);
  EXPECT_EQ(MessageBytesFor({.per_byte = 1 / 5e9}), size_t{128} << 10);
  EXPECT_EQ(MessageBytesFor({.per_byte = 1 / 1e6}), size_t{32} << 10);
  EXPECT_EQ(MessageBytesFor({}), size_t{128} << 10);
}

TEST(Plan, KeepsApartWhatIsNotNeighbouring) {
  Arena<float> arena({10, 10});
  arena.params[0].arena_offset += 100;
  arena.params[0].gradient += 100;  // only its place counts here
  EXPECT_EQ(MakePlan<float>(arena.params, 1 << 20).buckets.size(), 2u);
}

}  // namespace
}  // namespace carafe
