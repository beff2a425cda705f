#include "carafe/kernels/cpu_lstm.h"

#include <gtest/gtest.h>

#include "carafe/kernels/float8_math.h"
#include "carafe/kernels/recurrent.h"
#include "tests/support/blocked_arrays.h"

namespace carafe {
namespace {

std::vector<double> Wide(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}
std::vector<float> Narrow(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

// Against the plain kernel, in double.
TEST(CpuLstm, GivesWhatThePlainKernelGives) {
  for (const int64_t width : {1, 8, 13, 512}) {
    Stream stream(CpuDevice(), width == 512 ? 3 : 1);
    const int64_t rows = 5;
    const std::vector<float> before = RandomFloats(rows * width, 1, -3, 3);
    const std::vector<float> cont = {1, 0, 1, 0.5f, 1};
    std::vector<float> gates = RandomFloats(rows * width * 4, 2, -6, 6);
    std::vector<float> c(before.size()), h(c);
    std::vector<double> wide_gates = Wide(gates), wide_c(c.size()), wide_h(c.size());
    LstmForward<double>(stream, rows, width, Wide(before).data(), Wide(cont).data(),
                        wide_gates.data(), wide_c.data(), wide_h.data());
    CpuLstmForward(stream, rows, width, before.data(), cont.data(), gates.data(), c.data(),
                   h.data());
    EXPECT_LT(LargestError(Narrow(wide_gates), gates), 3e-7);
    EXPECT_LT(LargestError(Narrow(wide_c), c), 3e-7);
    EXPECT_LT(LargestError(Narrow(wide_h), h), 3e-7);

    const std::vector<float> dh = RandomFloats(rows * width, 3);
    std::vector<float> dc = RandomFloats(rows * width, 4), dgates(gates.size());
    std::vector<double> wide_dc = Wide(dc), wide_dgates(gates.size());
    LstmBackward<double>(stream, rows, width, Wide(before).data(), Wide(gates).data(),
                         Wide(c).data(), Wide(dh).data(), wide_dc.data(), wide_dc.data(),
                         wide_dgates.data());
    CpuLstmBackward(stream, rows, width, before.data(), gates.data(), c.data(), dh.data(),
                    dc.data(), dc.data(), dgates.data());
    EXPECT_LT(LargestError(Narrow(wide_dc), dc), 1e-6);
    EXPECT_LT(LargestError(Narrow(wide_dgates), dgates), 1e-6);
  }
}

TEST(Float8Math, IsExactToAFewBitsOfAnyNumber) {
  for (double x = -100; x < 100; x = x + 1e-3 + std::abs(x) * 1e-3) {
    const float v = static_cast<float>(x);
    const double exact = std::tanh(static_cast<double>(v));
    ASSERT_NEAR(static_cast<double>(Tanh8(All8(v))[3]), exact, 4e-7 * std::abs(exact)) << x;
    const double sigmoid = 1 / (1 + std::exp(-static_cast<double>(v)));
    ASSERT_NEAR(static_cast<double>(Sigmoid8(All8(v))[5]), sigmoid, 4e-7 * sigmoid + 1e-37) << x;
  }
  EXPECT_EQ(Tanh8(All8(0.0f))[0], 0);
  EXPECT_NEAR(static_cast<double>(Tanh8(All8(1e-20f))[0]), 1e-20, 1e-26);
  EXPECT_EQ(Tanh8(All8(INFINITY))[0], 1);
  EXPECT_EQ(Tanh8(All8(-INFINITY))[0], -1);
  EXPECT_EQ(Sigmoid8(All8(INFINITY))[0], 1);
  EXPECT_TRUE(std::isnan(Tanh8(All8(NAN))[0]));
  EXPECT_TRUE(std::isnan(Sigmoid8(All8(NAN))[0]));
}

}  // namespace
}  // namespace carafe
