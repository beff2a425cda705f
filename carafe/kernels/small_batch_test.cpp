#include "carafe/kernels/small_batch.h"

#include <gtest/gtest.h>

#include "carafe/kernels/gemm.h"
#include "tests/support/blocked_arrays.h"

namespace carafe {
namespace {

class SmallBatchTest : public ::testing::TestWithParam<std::tuple<SmallBatch, int>> {};

// Against the general matrix product, in double.
TEST_P(SmallBatchTest, GivesWhatTheGeneralProductGives) {
  const SmallBatch s = std::get<0>(GetParam());
  Stream stream(CpuDevice(), std::get<1>(GetParam()));
  const std::vector<float> x = RandomFloats(s.rows * s.inner, 1),
                           w = RandomFloats(s.width * s.inner, 2), bias = RandomFloats(s.width, 3),
                           dy = RandomFloats(s.rows * s.width, 4);
  const std::vector<double> wide_x(x.begin(), x.end()), wide_w(w.begin(), w.end()),
      wide_dy(dy.begin(), dy.end());
  const auto floats = [](const std::vector<double>& v) {
    return std::vector<float>(v.begin(), v.end());
  };

  std::vector<double> expected;
  for (int64_t r = 0; r < s.rows; ++r) expected.insert(expected.end(), bias.begin(), bias.end());
  Gemm<double>(stream, Op::kNone, Op::kTrans, s.rows, s.width, s.inner, 1, wide_x.data(),
               wide_w.data(), 1, expected.data());
  std::vector<float> y(dy.size(), 7.0f);
  SmallBatchForward(stream, s, x.data(), w.data(), bias.data(), y.data());
  EXPECT_LT(LargestError(floats(expected), y), 2e-6);
  SmallBatchForward(stream, s, x.data(), w.data(), nullptr, y.data());
  for (size_t i = 0; i < y.size(); ++i) {
    expected[i] -= static_cast<double>(bias[i % static_cast<size_t>(s.width)]);
  }
  EXPECT_LT(LargestError(floats(expected), y), 2e-6);

  std::vector<double> wide_dx(x.size());
  Gemm<double>(stream, Op::kNone, Op::kNone, s.rows, s.inner, s.width, 1, wide_dy.data(),
               wide_w.data(), 0, wide_dx.data());
  std::vector<float> dx(x.size(), 7.0f);
  SmallBatchBackwardData(stream, s, dy.data(), w.data(), dx.data());
  EXPECT_LT(LargestError(floats(wide_dx), dx), 2e-6);

  std::vector<double> wide_dw(w.size(), 0.5);
  Gemm<double>(stream, Op::kTrans, Op::kNone, s.width, s.inner, s.rows, 1, wide_dy.data(),
               wide_x.data(), 1, wide_dw.data());
  std::vector<float> dw(w.size(), 0.5f);
  SmallBatchBackwardWeights(stream, s, dy.data(), x.data(), dw.data());
  EXPECT_LT(LargestError(floats(wide_dw), dw), 2e-6);
}

TEST_P(SmallBatchTest, HandsTheWeightsGradientOverInPartsBitForBit) {
  const SmallBatch s = std::get<0>(GetParam());
  Stream stream(CpuDevice(), std::get<1>(GetParam()));
  const std::vector<float> x = RandomFloats(s.rows * s.inner, 1),
                           dy = RandomFloats(s.rows * s.width, 4);
  std::vector<float> whole(static_cast<size_t>(s.width * s.inner));
  SmallBatchBackwardWeights(stream, s, dy.data(), x.data(), whole.data());
  std::vector<float> sum(whole.size());
  std::vector<int> times(whole.size());
  SmallBatchWeightParts(stream, s, dy.data(), x.data(),
                        [&](Stream& own, int64_t first, int64_t count, float* part) {
                          EXPECT_EQ(own.threads(), 1);
                          for (int64_t i = 0; i < count; ++i) {
                            sum[static_cast<size_t>(first + i)] += part[i];
                            ++times[static_cast<size_t>(first + i)];
                            part[i] = 0;
                          }
                        });
  EXPECT_EQ(sum, whole);
  EXPECT_EQ(times, std::vector<int>(times.size(), 1));
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, SmallBatchTest,
    ::testing::Combine(::testing::Values(SmallBatch{1, 1, 1}, SmallBatch{1, 40, 300},
                                         SmallBatch{4, 37, 129}, SmallBatch{5, 10, 4500},
                                         SmallBatch{8, 203, 2070}, SmallBatch{32, 7, 64}),
                       ::testing::Values(1, 3)));

TEST(SmallBatch, DoesNotDependOnTheNumberOfThreads) {
  const SmallBatch s{4, 210, 5000};
  const std::vector<float> x = RandomFloats(s.rows * s.inner, 1),
                           w = RandomFloats(s.width * s.inner, 2),
                           dy = RandomFloats(s.rows * s.width, 4);
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 2, 5}) {
    Stream stream(CpuDevice(), threads);
    std::vector<float> y(dy.size()), dx(x.size()), dw(w.size(), 1.0f);
    SmallBatchForward(stream, s, x.data(), w.data(), nullptr, y.data());
    SmallBatchBackwardData(stream, s, dy.data(), w.data(), dx.data());
    SmallBatchBackwardWeights(stream, s, dy.data(), x.data(), dw.data());
    y.insert(y.end(), dx.begin(), dx.end());
    y.insert(y.end(), dw.begin(), dw.end());
    results.push_back(y);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

}  // namespace
}  // namespace carafe
