#include "carafe/kernels/gemm.h"

#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "carafe/base/random.h"

namespace carafe {
namespace {

template <typename T>
std::vector<T> Numbers(int64_t n, uint64_t key) {
  RandomSequence random(key);
  std::vector<T> values(static_cast<size_t>(n));
  for (T& value : values) value = static_cast<T>(random.NextGaussian());
  return values;
}

// Element (i, j) of op(M), where M is stored with `columns` columns.
template <typename T>
T At(const std::vector<T>& m, Op op, int64_t i, int64_t j, int64_t columns) {
  return m[static_cast<size_t>(op == Op::kNone ? i * columns + j : j * columns + i)];
}

class GemmTest : public ::testing::TestWithParam<std::tuple<Op, Op, int, double>> {};

TEST_P(GemmTest, MatchesTheDefinition) {
  const auto [a_op, b_op, threads, beta] = GetParam();
  Stream stream(CpuDevice(), threads);
  for (const auto& [m, n, k] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
           {1, 1, 1}, {2, 3, 4}, {7, 1, 5}, {1, 6, 3}, {17, 33, 65}}) {
    const auto a = Numbers<double>(m * k, 1), b = Numbers<double>(k * n, 2);
    const auto before = Numbers<double>(m * n, 3);
    std::vector<double> c = before;
    Gemm<double>(stream, a_op, b_op, m, n, k, 1.5, a.data(), b.data(), beta, c.data());
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l) {
          sum += At(a, a_op, i, l, a_op == Op::kNone ? k : m) *
                 At(b, b_op, l, j, b_op == Op::kNone ? n : k);
        }
        const size_t at = static_cast<size_t>(i * n + j);
        ASSERT_NEAR(c[at], 1.5 * sum + beta * before[at], 1e-12);
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Kernels, GemmTest,
                         ::testing::Combine(::testing::Values(Op::kNone, Op::kTrans),
                                            ::testing::Values(Op::kNone, Op::kTrans),
                                            ::testing::Values(1, 2),
                                            ::testing::Values(0.0, 1.0, -0.5)));

TEST(Gemm, WorksInFloatAndOnEmptyMatrices) {
  Stream stream;
  const std::vector<float> a = {1, 2}, b = {3, 4};
  std::vector<float> c = {9};
  Gemm<float>(stream, Op::kNone, Op::kNone, 1, 1, 2, 1, a.data(), b.data(), 0, c.data());
  EXPECT_EQ(c[0], 11);
  Gemm<float>(stream, Op::kNone, Op::kNone, 0, 1, 2, 1, a.data(), b.data(), 0, c.data());
  EXPECT_EQ(c[0], 11);
}

TEST(Gemv, MatchesTheDefinition) {
  Stream stream;
  const std::vector<double> a = {1, 2, 3, 4, 5, 6};  // 2 x 3
  std::vector<double> y = {1, 1};
  Gemv<double>(stream, Op::kNone, 2, 3, 2, a.data(), std::vector<double>{1, 0, -1}.data(), 1,
               y.data());
  EXPECT_EQ(y, (std::vector<double>{-3, -3}));
  std::vector<double> z = {1, 1, 1};
  Gemv<double>(stream, Op::kTrans, 2, 3, 1, a.data(), std::vector<double>{1, 10}.data(), 0,
               z.data());
  EXPECT_EQ(z, (std::vector<double>{41, 52, 63}));
}

}  // namespace
}  // namespace carafe
