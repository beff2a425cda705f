#include "carafe/core/row_share.h"

#include <gtest/gtest.h>

namespace carafe {
namespace {

TEST(RowShare, DealsTheGlobalBatchOutRowByRow) {
  for (const int count : {1, 2, 3, 7}) {
    for (const int64_t global : {7, 8, 10, 64}) {
      int64_t rows = 0;
      for (int w = 0; w < count; ++w) {
        const Replica replica{.index = w, .count = count, .global_batch = global};
        int64_t slots = 0;
        while (replica.Slot(slots) < global) ++slots;
        EXPECT_EQ(RowsOf(replica, 5), slots) << w << " of " << count << ", " << global << " rows";
        rows += RowsOf(replica, 5);
      }
      EXPECT_EQ(rows, global);
    }
  }
}

TEST(RowShare, IsTheFilesBatchWithoutAGlobalBatch) {
  EXPECT_EQ(RowsOf({.index = 1, .count = 3}, 5), 5);
}

TEST(RowShare, WeighsWorkersByTheirRows) {
  EXPECT_EQ(WeightOf({.index = 1, .count = 3}), 1);
  EXPECT_EQ(WeightOf({.index = 1, .count = 3, .global_batch = 12}), 1);
  const Replica first{.index = 0, .count = 3, .global_batch = 10};  // 4, 3 and 3 rows
  const Replica last{.index = 2, .count = 3, .global_batch = 10};
  EXPECT_DOUBLE_EQ(WeightOf(first), 1.2);
  EXPECT_DOUBLE_EQ(WeightOf(last), 0.9);
  EXPECT_FALSE(SharesAreEqual(first));
  EXPECT_TRUE(SharesAreEqual({.index = 1, .count = 3, .global_batch = 12}));
  EXPECT_TRUE(SharesAreEqual({.index = 1, .count = 3}));
}

}  // namespace
}  // namespace carafe
