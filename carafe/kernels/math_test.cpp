#include "carafe/kernels/math.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "carafe/base/random.h"

namespace carafe {
namespace {

std::vector<double> Numbers(int64_t n, uint64_t key) {
  RandomSequence random(key);
  std::vector<double> values(static_cast<size_t>(n));
  for (double& value : values) value = random.NextGaussian();
  return values;
}

class MathTest : public ::testing::TestWithParam<int> {
 protected:
  Stream stream_{CpuDevice(), GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Kernels, MathTest, ::testing::Values(1, 3));

TEST_P(MathTest, WorksElementByElement) {
  for (const int64_t n : {0, 1, 7, 50001}) {
    const std::vector<double> a = Numbers(n, 1), b = Numbers(n, 2);
    std::vector<double> sum(a.size()), product(a.size()), axpy = b, scaled(a.size()),
                                                          filled(a.size());
    Add(stream_, n, a.data(), b.data(), sum.data());
    Multiply(stream_, n, a.data(), b.data(), product.data());
    Axpy(stream_, n, 2.0, a.data(), axpy.data());
    Scale(stream_, n, -3.0, a.data(), scaled.data());
    Fill(stream_, n, 4.0, filled.data());
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(sum[i], a[i] + b[i]);
      ASSERT_EQ(product[i], a[i] * b[i]);
      ASSERT_DOUBLE_EQ(axpy[i], b[i] + 2 * a[i]);
      ASSERT_EQ(scaled[i], -3 * a[i]);
      ASSERT_EQ(filled[i], 4);
    }
  }
}

TEST_P(MathTest, FindsNumbersThatAreNotFinite) {
  std::vector<float> values(10000, 1e38f);
  EXPECT_TRUE(AllFinite(stream_, 10000, values.data()));
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    values[9999] = bad;
    EXPECT_FALSE(AllFinite(stream_, 10000, values.data()));
    EXPECT_TRUE(AllFinite(stream_, 9999, values.data()));
  }
  EXPECT_TRUE(AllFinite<double>(stream_, 0, nullptr));
}

TEST_P(MathTest, AddsVectorsToRowsAndChannelsAndBack) {
  const int64_t outer = 5, channels = 7, inner = 300;
  const std::vector<double> bias = Numbers(channels, 1),
                            before = Numbers(outer * channels * inner, 2);
  std::vector<double> y = before, sums(static_cast<size_t>(channels), 1.0), expected = sums;
  AddToChannels(stream_, outer, channels, inner, bias.data(), y.data());
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t c = i / inner % channels;
    ASSERT_EQ(y[i], before[i] + bias[c]);
    expected[c] += y[i];
  }
  AddChannelSums(stream_, outer, channels, inner, y.data(), sums.data());
  EXPECT_THAT(sums, ::testing::Pointwise(::testing::DoubleNear(1e-10), expected));

  std::vector<double> rows = {1, 2, 3, 4, 5, 6}, columns = {100, 200, 300};
  AddToRows(stream_, 2, 3, std::vector<double>{10, 20, 30}.data(), rows.data());
  EXPECT_THAT(rows, ::testing::ElementsAre(11, 22, 33, 14, 25, 36));
  AddColumnSums(stream_, 2, 3, rows.data(), columns.data());
  EXPECT_THAT(columns, ::testing::ElementsAre(125, 247, 369));
}

TEST_P(MathTest, SumsOverManyBlocks) {
  for (const int64_t n : {0, 1, 4096, 4097, 100000}) {
    const std::vector<double> a = Numbers(n, 1), b = Numbers(n, 2);
    double sum = 0, absolute = 0, squares = 0, dot = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      sum += a[i];
      absolute += std::fabs(a[i]);
      squares += a[i] * a[i];
      dot += a[i] * b[i];
    }
    EXPECT_NEAR(Sum(stream_, n, a.data()), sum, 1e-9);
    EXPECT_NEAR(SumOfAbs(stream_, n, a.data()), absolute, 1e-8);
    EXPECT_NEAR(SumOfSquares(stream_, n, a.data()), squares, 1e-8);
    EXPECT_NEAR(Dot(stream_, n, a.data(), b.data()), dot, 1e-9);
  }
}

TEST(Math, SumsHaveTheSameBitsForAnyNumberOfThreads) {
  const std::vector<double> a = Numbers(100001, 5);
  Stream one(CpuDevice(), 1), four(CpuDevice(), 4);
  EXPECT_EQ(Sum(one, 100001, a.data()), Sum(four, 100001, a.data()));
  EXPECT_EQ(SumOfSquares(one, 100001, a.data()), SumOfSquares(four, 100001, a.data()));
}

TEST(Math, SumsFloatsInDouble) {
  Stream stream;
  std::vector<float> many(1000000, 0.1f);
  EXPECT_NEAR(Sum(stream, 1000000, many.data()), 1e6 * static_cast<double>(0.1f), 1e-5);
}

}  // namespace
}  // namespace carafe
