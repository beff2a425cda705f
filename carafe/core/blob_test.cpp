#include "carafe/core/blob.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "carafe/base/error.h"

namespace carafe {
namespace {

std::vector<float> Counting(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

// By the definition of nChw8c, one element at a time.
std::vector<float> BlockedByHand(const BlockedGeometry& g, const std::vector<float>& plain) {
  std::vector<float> blocked(static_cast<size_t>(g.padded_count()), 0.0f);
  for (int64_t n = 0; n < g.images; ++n) {
    for (int64_t c = 0; c < g.channels; ++c) {
      for (int64_t s = 0; s < g.plane; ++s) {
        const int64_t to = ((n * g.blocks() + c / 8) * g.plane + s) * 8 + c % 8;
        blocked[static_cast<size_t>(to)] =
            plain[static_cast<size_t>((n * g.channels + c) * g.plane + s)];
      }
    }
  }
  return blocked;
}

std::vector<float> Elements(const float* from, int64_t count) { return {from, from + count}; }

class BlobFormats : public ::testing::TestWithParam<std::tuple<Shape, int>> {};

TEST_P(BlobFormats, GiveTheSameElementsThereAndBack) {
  const auto& [shape, threads] = GetParam();
  Stream stream(CpuDevice(), threads);
  Blob<float> blob(shape);
  const std::vector<float> values = Counting(blob.count());
  blob.SetData(stream, values);
  blob.SetDiff(stream, values);
  ASSERT_TRUE(blob.Takes(stream, Format::kBlocked8));
  const BlockedGeometry g = blob.blocked_geometry();
  EXPECT_EQ(Elements(blob.data(stream, Format::kBlocked8), g.padded_count()),
            BlockedByHand(g, values));
  EXPECT_EQ(blob.data_format(), Format::kBlocked8);
  EXPECT_EQ(blob.diff_format(), Format::kPlain);
  EXPECT_EQ(Elements(blob.mutable_diff(stream, Format::kBlocked8), g.padded_count()),
            BlockedByHand(g, values));
  EXPECT_EQ(blob.DataToHost(stream), values);
  EXPECT_EQ(blob.DiffToHost(stream), values);
  EXPECT_EQ(blob.data_format(), Format::kPlain);
}

TEST_P(BlobFormats, AreCopiedFromOnePlaceToAnother) {
  const auto& [shape, threads] = GetParam();
  Stream stream(CpuDevice(), threads);
  const BlockedGeometry g = BlockedGeometryOf(shape);
  const std::vector<float> values = Counting(g.count());
  std::vector<float> blocked(static_cast<size_t>(g.padded_count()), -1), plain(values.size(), -1);
  PlainToBlocked(stream, g, values.data(), blocked.data());
  EXPECT_EQ(blocked, BlockedByHand(g, values));
  BlockedToPlain(stream, g, blocked.data(), plain.data());
  EXPECT_EQ(plain, values);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, BlobFormats,
    ::testing::Combine(::testing::Values(Shape{1, 8, 1}, Shape{2, 16, 3, 3}, Shape{2, 3, 5, 4},
                                         Shape{3, 20, 7, 1}, Shape{5, 24, 1, 1}, Shape{2, 9, 1, 1},
                                         Shape{3, 1, 17}, Shape{2, 8, 2, 3, 4}, Shape{0, 8, 3, 3},
                                         Shape{4, 32, 16, 17}, Shape{4, 33, 16, 17}),
                       ::testing::Values(1, 2)));

TEST(Blob, OverwritesWithoutReorderingAndWithZerosInThePadding) {
  Stream stream;
  Blob<float> blob({2, 3, 2, 2});
  blob.SetData(stream, Counting(24));
  float* y = blob.overwrite_data(stream, Format::kBlocked8);
  EXPECT_EQ(blob.data_format(), Format::kBlocked8);
  for (int64_t i = 0; i < 64; ++i) {
    if (i % 8 < 3) {
      y[i] = static_cast<float>(i);
    } else {
      EXPECT_EQ(y[i], 0) << i;
    }
  }
  EXPECT_EQ(blob.DataToHost(stream)[4], 1);  // channel 1, pixel 0
  EXPECT_EQ(blob.DataToHost(stream)[23], 58);
}

TEST(Blob, SharesTheFormatWithItsSharers) {
  Stream stream;
  Blob<float> blob({2, 8, 2, 3}), same({2, 8, 2, 3}), flat({2, 48}), other({4, 4, 6});
  const std::vector<float> values = Counting(blob.count());
  blob.SetData(stream, values);
  for (Blob<float>* sharer : {&same, &flat, &other}) sharer->ShareData(blob);
  blob.data(stream, Format::kBlocked8);
  EXPECT_EQ(same.data_format(), Format::kBlocked8);
  EXPECT_EQ(flat.data_format(), Format::kPlain);
  EXPECT_EQ(other.data_format(), Format::kPlain);
  EXPECT_EQ(
      Elements(other.data(stream, Format::kBlocked8), other.blocked_geometry().padded_count()),
      BlockedByHand(other.blocked_geometry(), values));
  EXPECT_EQ(blob.data_format(), Format::kPlain);  // blocked for other channels than these
  EXPECT_EQ(flat.DataToHost(stream), values);
  EXPECT_EQ(blob.DataToHost(stream), values);
}

TEST(Blob, KeepsItsElementsWhenAnotherBatchSizeFollows) {
  Stream stream;
  Blob<float> blob({3, 5, 2, 2});
  blob.SetData(stream, Counting(60));
  blob.data(stream, Format::kBlocked8);
  blob.Reshape({2, 5, 2, 2});
  EXPECT_EQ(blob.data_format(), Format::kPlain);
  EXPECT_EQ(Elements(blob.data(stream, Format::kBlocked8), 64),
            BlockedByHand(blob.blocked_geometry(), Counting(40)));
  blob.Reshape({4, 5, 2, 2});
  EXPECT_EQ(Elements(blob.data(stream), 40), Counting(40));
}

TEST(Blob, SetsAndZeroesInPlainFormatWhateverItWas) {
  Stream stream;
  Blob<float> blob({1, 2, 1, 2});
  blob.overwrite_data(stream, Format::kBlocked8);
  blob.SetData(stream, Counting(4));
  EXPECT_THAT(blob.DataToHost(stream), ::testing::ElementsAre(1, 2, 3, 4));
  blob.SetDiff(stream, Counting(4));
  blob.diff(stream, Format::kBlocked8);
  blob.ZeroDiff(stream);
  EXPECT_THAT(blob.DiffToHost(stream), ::testing::ElementsAre(0, 0, 0, 0));
}

TEST(Blob, IsBlockedOnlyWhereThatHasAMeaning) {
  Stream stream;
  EXPECT_FALSE(Blob<double>({2, 8, 3, 3}).Takes(stream, Format::kBlocked8));
  EXPECT_FALSE(Blob<float>({2, 8}).Takes(stream, Format::kBlocked8));
  EXPECT_TRUE(Blob<float>({2, 8}).Takes(stream, Format::kPlain));
  Blob<float> parameter({8, 8, 3, 3});
  EXPECT_TRUE(parameter.Takes(stream, Format::kBlocked8));
  parameter.PlaceData(std::make_shared<Buffer>(), 16);
  EXPECT_FALSE(parameter.Takes(stream, Format::kBlocked8));
  EXPECT_THROW(parameter.data(stream, Format::kBlocked8), InternalError);
}

}  // namespace
}  // namespace carafe
