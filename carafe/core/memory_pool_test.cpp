// The pool, and buffers and blobs that take their memory from one.
#include "carafe/core/memory_pool.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "carafe/core/blob.h"

namespace carafe {
namespace {

TEST(FreeRanges, NeverGiveOutAByteTwiceAndBecomeOneAgain) {
  constexpr size_t kAll = 10000;
  FreeRanges free(kAll);
  std::mt19937 random(3);
  std::map<size_t, size_t> taken;  // offset -> bytes
  for (int i = 0; i < 3000; ++i) {
    const size_t bytes = 1 + random() % 900;
    if (random() % 2 == 0 && free.SmallestFit(bytes) != FreeRanges::kNone) {
      const size_t offset = free.Take(bytes);
      ASSERT_LE(offset + bytes, kAll);
      const auto next = taken.lower_bound(offset);
      if (next != taken.end()) {
        ASSERT_LE(offset + bytes, next->first);
      }
      if (next != taken.begin()) {
        ASSERT_LE(std::prev(next)->first + std::prev(next)->second, offset);
      }
      taken[offset] = bytes;
    } else if (!taken.empty()) {
      const auto chosen = std::next(taken.begin(), static_cast<long>(random() % taken.size()));
      free.Give(chosen->first, chosen->second);
      taken.erase(chosen);
    }
  }
  for (const auto& [offset, bytes] : taken) free.Give(offset, bytes);
  EXPECT_EQ(free.SmallestFit(kAll), kAll);
}

TEST(FreeRanges, TakeTheHoleThatFitsBest) {
  FreeRanges free(1000);
  for (int i = 0; i < 5; ++i) free.Take(100);
  free.Give(0, 200);
  free.Give(300, 100);
  EXPECT_EQ(free.Take(80), 300u);
  EXPECT_EQ(free.Take(150), 0u);
  EXPECT_EQ(free.Take(300), 500u);
  EXPECT_EQ(free.SmallestFit(300), FreeRanges::kNone);
}

TEST(MemoryPool, UsesAgainWhatWasGivenBackAndBecomesOnePieceWhenNobodyUsesIt) {
  Stream stream;
  MemoryPool pool;
  void* a = pool.Take(stream, 1000);
  pool.Give(a, 1000);
  EXPECT_EQ(pool.Take(stream, 900), a);
  void* b = pool.Take(stream, 5000);
  EXPECT_EQ(pool.in_use(), MemoryPool::Rounded(900) + MemoryPool::Rounded(5000));
  const size_t peak = pool.peak();
  pool.Give(a, 900);
  pool.Reserve(stream, 0);  // b is in use: nothing moves
  EXPECT_EQ(pool.Take(stream, 900), a);
  pool.Give(a, 900);
  pool.Give(b, 5000);
  EXPECT_EQ(pool.in_use(), 0u);
  EXPECT_EQ(pool.peak(), peak);
  const size_t held = pool.bytes();
  pool.Reserve(stream, 0);
  EXPECT_EQ(pool.bytes(), held);
  void* all = pool.Take(stream, held - 64);  // what lay in two pieces
  EXPECT_EQ(pool.bytes(), held);
  pool.Give(all, held - 64);
}

class PooledBlob : public ::testing::Test {
 protected:
  PooledBlob() { pool_->set_poison(true); }
  Stream stream_;
  std::shared_ptr<MemoryPool> pool_ = std::make_shared<MemoryPool>();
};

TEST_F(PooledBlob, ReadsAsZerosAfterItsRelease) {
  Blob<float> blob({2, 9, 3});
  blob.PoolData(pool_);
  blob.SetData(stream_, std::vector<float>(54, 2.5f));
  blob.data(stream_, Format::kBlocked8);
  EXPECT_GT(pool_->in_use(), 0u);
  blob.ReleaseData();
  EXPECT_EQ(pool_->in_use(), 0u);
  EXPECT_EQ(blob.data_format(), Format::kBlocked8);  // layers go by it in Backward
  EXPECT_EQ(blob.DataToHost(stream_), std::vector<float>(54, 0.0f));
}

TEST_F(PooledBlob, HasZerosInThePaddingOfMemoryThatOthersUsed) {
  Blob<float> other({4, 16, 9}), blob({2, 9, 4});
  for (Blob<float>* b : {&other, &blob}) b->PoolData(pool_);
  for (int round = 0; round < 2; ++round) {
    other.SetData(stream_, std::vector<float>(static_cast<size_t>(other.count()), 7.0f));
    other.ReleaseData();  // poisoned now
    float* y = blob.overwrite_data(stream_, Format::kBlocked8);
    for (int64_t i = 0; i < blob.blocked_geometry().padded_count(); ++i) {
      const int64_t channel = i / 32 % 2 * 8 + i % 8;
      if (channel >= 9) {
        ASSERT_EQ(y[i], 0.0f) << i;
      }
    }
    blob.ReleaseData();
  }
}

TEST_F(PooledBlob, KeepsItsElementsAsItGrows) {
  Blob<float> blob({3});
  blob.PoolData(pool_);
  blob.SetData(stream_, std::vector<float>{1, 2, 3});
  blob.Reshape({40});
  const std::vector<float> values = blob.DataToHost(stream_);
  EXPECT_EQ(values[2], 3);
  for (size_t i = 3; i < 40; ++i) EXPECT_EQ(values[i], 0);
}

TEST_F(PooledBlob, IsPutAsideWithoutACopy) {
  Blob<float> blob({1, 8, 2}), sharer({16}), kept;
  blob.PoolData(pool_);
  sharer.ShareData(blob);
  const std::vector<float> values(16, 3.0f);
  for (int round = 0; round < 3; ++round) {
    blob.SetData(stream_, values);
    const float* before = blob.data(stream_, Format::kBlocked8);
    blob.MoveDataTo(&kept);
    EXPECT_EQ(kept.data(stream_, Format::kBlocked8), before);
    EXPECT_EQ(kept.shape(), blob.shape());
    blob.SetData(stream_, std::vector<float>(16, 4.0f));
    EXPECT_EQ(kept.DataToHost(stream_), values);
    EXPECT_EQ(sharer.DataToHost(stream_), std::vector<float>(16, 4.0f));
    kept.ReleaseData();
    blob.ReleaseData();
    EXPECT_EQ(pool_->in_use(), 0u);
  }
}

}  // namespace
}  // namespace carafe
