#include "carafe/kernels/packed_gemm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/blocked_arrays.h"

namespace carafe {
namespace {

struct Sizes {
  int64_t m, n, k;
};

class PackedGemmTest : public ::testing::TestWithParam<std::tuple<Sizes, int>> {};

TEST_P(PackedGemmTest, GivesWhatGemmGives) {
  const auto [m, n, k] = std::get<0>(GetParam());
  Stream stream(CpuDevice(), std::get<1>(GetParam()));
  const std::vector<float> a = RandomFloats(m * k, 1), b = RandomFloats(k * n, 2),
                           start = RandomFloats(m * n, 3);
  std::vector<float> packed(static_cast<size_t>(PackedCount(k, n)), 7.0f);
  for (const Op b_op : {Op::kNone, Op::kTrans}) {
    PackMatrix(stream, b_op, k, n, b.data(), packed.data());
    for (const Op a_op : {Op::kNone, Op::kTrans}) {
      for (const bool add : {false, true}) {
        std::vector<float> expected = start, got = start;
        Gemm<float>(stream, a_op, b_op, m, n, k, 1, a.data(), b.data(), add ? 1 : 0,
                    expected.data());
        PackedGemm(stream, a_op, m, n, k, a.data(), packed.data(),
                   add ? Start{got.data(), n} : Start{}, got.data());
        EXPECT_LT(LargestError(expected, got), 3e-6);
        if (a_op == Op::kTrans) continue;
        got = start;
        PanelGemm(stream, b_op, m, n, k, a.data(), b.data(), add ? Start{got.data(), n} : Start{},
                  got.data());
        EXPECT_LT(LargestError(expected, got), 3e-6);
      }
    }
  }
}

TEST_P(PackedGemmTest, AddsOneRowToAll) {
  const auto [m, n, k] = std::get<0>(GetParam());
  Stream stream(CpuDevice(), std::get<1>(GetParam()));
  const std::vector<float> a = RandomFloats(m * k, 1), b = RandomFloats(k * n, 2),
                           row = RandomFloats(n, 3);
  std::vector<float> packed(static_cast<size_t>(PackedCount(k, n)));
  PackMatrix(stream, Op::kNone, k, n, b.data(), packed.data());
  std::vector<float> expected, got(static_cast<size_t>(m * n), NAN);
  for (int64_t i = 0; i < m; ++i) expected.insert(expected.end(), row.begin(), row.end());
  Gemm<float>(stream, Op::kNone, Op::kNone, m, n, k, 1, a.data(), b.data(), 1, expected.data());
  PackedGemm(stream, Op::kNone, m, n, k, a.data(), packed.data(), {row.data(), 0}, got.data());
  EXPECT_LT(LargestError(expected, got), 3e-6);
}

INSTANTIATE_TEST_SUITE_P(
    AllSizes, PackedGemmTest,
    ::testing::Combine(::testing::Values(Sizes{1, 1, 1}, Sizes{2, 3, 5}, Sizes{6, 16, 8},
                                         Sizes{7, 17, 33}, Sizes{13, 40, 700}, Sizes{32, 64, 1030},
                                         Sizes{65, 9, 31}, Sizes{100, 24, 514}, Sizes{230, 33, 66}),
                       ::testing::Values(1, 3)));

TEST(PackedGemm, GivesTheSameBitsWithAnyNumberOfThreads) {
  constexpr int64_t kM = 203, kN = 70, kK = 600;
  const std::vector<float> a = RandomFloats(kM * kK, 1), b = RandomFloats(kK * kN, 2);
  std::vector<float> packed(static_cast<size_t>(PackedCount(kK, kN)));
  for (const Op op : {Op::kNone, Op::kTrans}) {
    std::vector<float> results[3], panels;
    for (const int threads : {1, 2, 3}) {
      Stream stream(CpuDevice(), threads);
      std::vector<float>& c = results[threads - 1];
      c.resize(kM * kN);
      PackMatrix(stream, Op::kNone, kK, kN, b.data(), packed.data());
      PackedGemm(stream, op, kM, kN, kK, a.data(), packed.data(), {}, c.data());
      EXPECT_EQ(c, results[0]) << threads << " threads";
      std::vector<float> by_panels(kM * kN);
      PanelGemm(stream, op, kM, kN, kK, a.data(), b.data(), {}, by_panels.data());
      if (threads == 1) panels = by_panels;
      EXPECT_EQ(by_panels, panels) << threads << " threads, by panels";
    }
  }
}

}  // namespace
}  // namespace carafe
