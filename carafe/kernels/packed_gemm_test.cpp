#include "carafe/kernels/packed_gemm.h"

#include <gtest/gtest.h>

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
  for (const Op op : {Op::kNone, Op::kTrans}) {
    PackMatrix(stream, op, k, n, b.data(), packed.data());
    for (const bool add : {false, true}) {
      std::vector<float> expected = start, got = start;
      Gemm<float>(stream, Op::kNone, op, m, n, k, 1, a.data(), b.data(), add ? 1 : 0,
                  expected.data());
      PackedGemm(stream, m, n, k, a.data(), packed.data(), add, got.data());
      EXPECT_LT(LargestError(expected, got), 3e-6);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    AllSizes, PackedGemmTest,
    ::testing::Combine(::testing::Values(Sizes{1, 1, 1}, Sizes{2, 3, 5}, Sizes{6, 16, 8},
                                         Sizes{7, 17, 33}, Sizes{13, 40, 700}, Sizes{32, 64, 1030}),
                       ::testing::Values(1, 3)));

}  // namespace
}  // namespace carafe
