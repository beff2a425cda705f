#include "carafe/data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <vector>

namespace carafe {
namespace {

std::vector<int64_t> AllIndices(int64_t n) {
  std::vector<int64_t> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// A sampler with the data set that it is for.
struct Stream {
  int64_t records = 0;
  Sampler sampler;
  bool shuffle = false;

  int64_t Record(const Pass& pass, const Replica& replica, int64_t row) const {
    const EpochPosition at = sampler.At(pass, replica, row, records);
    return shuffle ? ShuffledIndex(9, at.epoch, records, at.index) : at.index;
  }
};

// The records of all workers in one pass, by slot.
std::map<int64_t, int64_t> BySlot(const Stream& stream, int workers, int64_t global_batch,
                                  int64_t pass) {
  std::map<int64_t, int64_t> records;
  for (int w = 0; w < workers; ++w) {
    const Replica replica{w, workers, global_batch};
    for (int64_t row = 0; row < stream.sampler.Rows(replica); ++row) {
      const auto added = records.emplace(stream.sampler.Slot(replica, row),
                                         stream.Record({.index = pass}, replica, row));
      EXPECT_TRUE(added.second) << "two workers have the same slot";
    }
  }
  return records;
}

TEST(ShuffledIndex, IsAPermutationForEveryCount) {
  for (const int64_t n : {1, 2, 3, 4, 5, 7, 10, 16, 17, 99, 100, 1000, 4097}) {
    for (const int64_t epoch : {0, 1, 5}) {
      std::vector<int64_t> seen;
      for (int64_t i = 0; i < n; ++i) seen.push_back(ShuffledIndex(42, epoch, n, i));
      std::sort(seen.begin(), seen.end());
      EXPECT_EQ(seen, AllIndices(n)) << n;
    }
  }
}

TEST(ShuffledIndex, StaysInRangeForHugeCounts) {
  const int64_t n = (int64_t{1} << 40) + 12345;
  std::set<int64_t> seen;
  for (int64_t i = 0; i < 1000; ++i) {
    const int64_t index = ShuffledIndex(7, 3, n, n - 1 - i);
    EXPECT_GE(index, 0);
    EXPECT_LT(index, n);
    seen.insert(index);
  }
  EXPECT_EQ(seen.size(), 1000u);
}

TEST(ShuffledIndex, ReachesEveryOrderOfFourAboutEquallyOften) {
  std::map<std::vector<int64_t>, int> orders;
  for (int64_t epoch = 0; epoch < 24000; ++epoch) {
    std::vector<int64_t> order;
    for (int64_t i = 0; i < 4; ++i) order.push_back(ShuffledIndex(1, epoch, 4, i));
    ++orders[order];
  }
  EXPECT_EQ(orders.size(), 24u);
  for (const auto& [order, times] : orders) {  // 1000 expected, deviation 31
    EXPECT_GT(times, 800);
    EXPECT_LT(times, 1200);
  }
}

TEST(ShuffledIndex, LeavesNoTraceOfTheOldOrder) {
  // Neighbours keep their distance in about one of n places; fixed points likewise.
  const int64_t n = 10000;
  int neighbours = 0, fixed = 0;
  for (int64_t i = 0; i + 1 < n; ++i) {
    neighbours += ShuffledIndex(3, 0, n, i + 1) == ShuffledIndex(3, 0, n, i) + 1;
    fixed += ShuffledIndex(3, 0, n, i) == i;
  }
  EXPECT_LT(neighbours, 8);
  EXPECT_LT(fixed, 8);
}

class ShardingOver : public ::testing::TestWithParam<int> {};

TEST_P(ShardingOver, WorkersTogetherSeeWhatOneWorkerWithTheGlobalBatchSees) {
  const int workers = GetParam();
  for (const bool shuffle : {false, true}) {
    const int64_t rows = 4;
    const Stream each{23, {.batch = rows}, shuffle};
    const Stream one{23, {.batch = rows * workers}, shuffle};
    for (int64_t pass = 0; pass < 30; ++pass) {
      EXPECT_EQ(BySlot(each, workers, 0, pass), BySlot(one, 1, 0, pass));
    }
  }
}

TEST_P(ShardingOver, AGivenGlobalBatchIsSharedOutWhole) {
  const int workers = GetParam();
  const Stream each{23, {.batch = 100}};
  const Stream one{23, {.batch = 17}};
  int64_t least = 100, most = 0;
  for (int w = 0; w < workers; ++w) {
    const int64_t rows = each.sampler.Rows({w, workers, 17});
    least = std::min(least, rows);
    most = std::max(most, rows);
  }
  EXPECT_LE(most - least, 1);
  for (int64_t pass = 0; pass < 10; ++pass) {
    EXPECT_EQ(BySlot(each, workers, 17, pass), BySlot(one, 1, 0, pass));
  }
}

TEST_P(ShardingOver, EveryEpochHasEveryRecordOnce) {
  const int workers = GetParam();
  for (const bool shuffle : {false, true}) {
    const Stream stream{23, {.batch = 3}, shuffle};
    std::vector<int64_t> seen;
    for (int64_t pass = 0; seen.size() < 23 * 4; ++pass) {
      for (const auto& [slot, record] : BySlot(stream, workers, 0, pass)) seen.push_back(record);
    }
    std::set<std::vector<int64_t>> orders;
    for (int epoch = 0; epoch < 4; ++epoch) {
      const auto begin = seen.begin() + epoch * 23;
      std::vector<int64_t> of_epoch(begin, begin + 23);
      orders.insert(of_epoch);
      std::sort(of_epoch.begin(), of_epoch.end());
      EXPECT_EQ(of_epoch, AllIndices(23));
    }
    EXPECT_EQ(orders.size(), shuffle ? 4u : 1u);
    EXPECT_EQ(*orders.begin() == AllIndices(23), !shuffle);
  }
}

INSTANTIATE_TEST_SUITE_P(Workers, ShardingOver, ::testing::Values(1, 2, 3, 5));

TEST(Sampler, WorkerTakesEveryPthRecordAsInCaffe) {
  const Stream stream{100, {.batch = 5}};
  const Replica replica{1, 3, 0};
  EXPECT_EQ(stream.Record({.index = 0}, replica, 0), 1);
  EXPECT_EQ(stream.Record({.index = 0}, replica, 4), 13);
  EXPECT_EQ(stream.Record({.index = 1}, replica, 0), 16);
  EXPECT_EQ(stream.Record({.index = 6}, replica, 4), 3);  // position 103: the share moves on
}

TEST(Sampler, EveryWorkerReadsAllRecordsInTest) {
  const Stream stream{100, {.batch = 40, .shard = false}};
  for (const Replica& replica : {Replica{0, 1, 0}, Replica{2, 3, 0}, Replica{2, 3, 7}}) {
    EXPECT_EQ(stream.sampler.Rows(replica), 40);
    EXPECT_EQ(stream.sampler.Slot(replica, 3), 3);
    EXPECT_EQ(stream.Record({.index = 2}, replica, 30), 10);
  }
}

TEST(Sampler, GoesOnAtTheSameSampleWithAnotherGlobalBatch) {
  const Stream stream{1000, {.batch = 8}};
  // 10 passes of 3 workers have seen 240 samples; pass 10 of 2 workers goes on there.
  const Pass resumed{.index = 10, .origin = 240 - 10 * 16};
  EXPECT_EQ(stream.Record(resumed, {0, 2, 0}, 0), 240);
  EXPECT_EQ(stream.Record(resumed, {1, 2, 0}, 7), 255);
}

}  // namespace
}  // namespace carafe
