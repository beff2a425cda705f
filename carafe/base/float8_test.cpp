#include "carafe/base/float8.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace carafe {
namespace {

TEST(Float8, ComputesLaneByLane) {
  float a[8], b[8], fused[8], larger[8];
  for (int i = 0; i < 8; ++i) {
    a[i] = static_cast<float>(i - 4);
    b[i] = static_cast<float>(3 - 2 * i);
  }
  const Float8 x = Load8(a), y = Load8(b);
  Store8(fused, MulAdd8(x, y, All8(0.5f)));
  Store8(larger, Max8(x, y));
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(fused[i], a[i] * b[i] + 0.5f);
    EXPECT_EQ(larger[i], std::max(a[i], b[i]));
  }
}

TEST(Float8, MaxWithZeroKeepsNotANumber) {
  float y[8];
  Store8(y, Max8(All8(0.0f), All8(std::nanf(""))));
  for (const float value : y) EXPECT_TRUE(std::isnan(value));
}

TEST(Float8, KeepsTheLanesOfAMask) {
  Int8 mask = All8(int32_t{-1});
  mask[1] = mask[7] = 0;
  float y[8];
  Store8(y, Keep8(mask, All8(3.0f)));
  for (int i = 0; i < 8; ++i) EXPECT_EQ(y[i], i == 1 || i == 7 ? 0.0f : 3.0f);
}

TEST(Float8, ReadsAndWritesPartsOfAnArray) {
  const float from[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  float lanes[8], to[4] = {0, 0, 0, 9};
  Store8(lanes, LoadPart8(from, 3));
  for (int i = 0; i < 8; ++i) EXPECT_EQ(lanes[i], i < 3 ? from[i] : 0.0f);
  StorePart8(to, 3, Load8(from));
  EXPECT_EQ(to[2], 3.0f);
  EXPECT_EQ(to[3], 9.0f) << "past the part";
}

TEST(Float8, TakesAndGivesBytes) {
  const uint8_t from[8] = {0, 1, 127, 128, 200, 254, 255, 7};
  uint8_t to[8];
  const Int8 numbers = LoadBytes8(from);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(numbers[i], from[i]);
  StoreBytes8(to, numbers);
  EXPECT_TRUE(std::equal(from, from + 8, to));
}

TEST(Float8, TransposesEightByEight) {
  float from[8][8], to[8][8];
  Float8 rows[8];
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < 8; ++j) from[i][j] = static_cast<float>(10 * i + j);
    rows[i] = Load8(from[i]);
  }
  Transpose8(rows);
  for (int i = 0; i < 8; ++i) Store8(to[i], rows[i]);
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < 8; ++j) EXPECT_EQ(to[i][j], from[j][i]);
  }
}

}  // namespace
}  // namespace carafe
