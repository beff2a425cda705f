#include "carafe/kernels/simd.h"

#include <gtest/gtest.h>

#include <cmath>

namespace carafe {
namespace {

template <typename V>
class SimdTest : public ::testing::Test {};
using Vectors = ::testing::Types<Vec8, PortableVec8>;
TYPED_TEST_SUITE(SimdTest, Vectors);

TYPED_TEST(SimdTest, ComputesLaneByLane) {
  float a[8], b[8], sum[8], difference[8], product[8], fused[8], larger[8];
  for (int i = 0; i < 8; ++i) {
    a[i] = static_cast<float>(i - 4);
    b[i] = static_cast<float>(3 - 2 * i);
  }
  const TypeParam x = TypeParam::Load(a), y = TypeParam::Load(b);
  (x + y).Store(sum);
  (x - y).Store(difference);
  (x * y).Store(product);
  MulAdd(x, y, TypeParam::Broadcast(0.5f)).Store(fused);
  Max(x, y).Store(larger);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(sum[i], a[i] + b[i]);
    EXPECT_EQ(difference[i], a[i] - b[i]);
    EXPECT_EQ(product[i], a[i] * b[i]);
    EXPECT_EQ(fused[i], a[i] * b[i] + 0.5f);
    EXPECT_EQ(larger[i], std::max(a[i], b[i]));
  }
}

TYPED_TEST(SimdTest, MaxWithZeroKeepsNotANumber) {
  const TypeParam x = TypeParam::Broadcast(std::nanf(""));
  float y[8];
  Max(TypeParam::Broadcast(0), x).Store(y);
  for (float value : y) EXPECT_TRUE(std::isnan(value));
}

TYPED_TEST(SimdTest, TransposesEightByEight) {
  float from[8][8], to[8][8];
  TypeParam rows[8];
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < 8; ++j) from[i][j] = static_cast<float>(10 * i + j);
    rows[i] = TypeParam::Load(from[i]);
  }
  Transpose(rows);
  for (int i = 0; i < 8; ++i) rows[i].Store(to[i]);
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < 8; ++j) EXPECT_EQ(to[i][j], from[j][i]);
  }
}

}  // namespace
}  // namespace carafe
