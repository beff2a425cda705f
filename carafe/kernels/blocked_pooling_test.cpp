#include "carafe/kernels/blocked_pooling.h"

#include <gtest/gtest.h>

#include "tests/support/blocked_arrays.h"

namespace carafe {
namespace {

struct Case {
  const char* name;
  int64_t images, channels;
  PoolGeometry g;  // planes are filled in
};
// height, width, pooled height, pooled width, kernel h, w, stride h, w, pad h, w
const Case kCases[] = {
    {"TwoByTwo", 2, 16, {0, 8, 6, 4, 3, 2, 2, 2, 2, 0, 0}},
    {"TwoByTwoOnOddSizes", 2, 8, {0, 7, 5, 4, 3, 2, 2, 2, 2, 0, 0}},
    {"TwoByTwoRoundedDown", 2, 8, {0, 7, 5, 3, 2, 2, 2, 2, 2, 0, 0}},
    {"ThreeByThreeStrideTwoRoundsUp", 2, 24, {0, 14, 12, 7, 6, 3, 3, 2, 2, 0, 0}},
    {"ThreeByThreePadded", 1, 16, {0, 9, 11, 9, 11, 3, 3, 1, 1, 1, 1}},
    {"ThreeByThreePaddedStrideTwo", 1, 8, {0, 9, 8, 5, 5, 3, 3, 2, 2, 1, 1}},
    {"ChannelsThatDoNotFillTheirBlock", 3, 13, {0, 9, 8, 5, 5, 3, 3, 2, 2, 1, 1}},
    {"Rectangular", 2, 5, {0, 6, 9, 7, 4, 2, 3, 1, 2, 1, 0}},
    {"FiveByFive", 1, 9, {0, 11, 13, 6, 7, 5, 5, 2, 2, 2, 2}},
    {"Global", 2, 10, {0, 7, 7, 1, 1, 7, 7, 1, 1, 0, 0}},
    {"WindowsBeyondTheImage", 2, 5, {0, 5, 5, 3, 3, 1, 1, 3, 3, 0, 0}},
    {"LargeEnoughForThreads", 4, 32, {0, 28, 28, 14, 14, 3, 3, 2, 2, 0, 0}},
};

class BlockedPoolingTest : public ::testing::TestWithParam<std::tuple<Case, int>> {
 protected:
  BlockedPoolingTest()
      : c_(std::get<0>(GetParam())), stream_(CpuDevice(), std::get<1>(GetParam())) {
    plain_ = blocked_ = c_.g;
    plain_.planes = c_.images * c_.channels;
    blocked_.planes = c_.images * in().blocks();
  }
  BlockedGeometry in() const { return {c_.images, c_.channels, c_.g.in_size()}; }
  BlockedGeometry out() const { return {c_.images, c_.channels, c_.g.out_size()}; }

  const Case c_;
  Stream stream_;
  PoolGeometry plain_, blocked_;
};

// Few different values, so that windows have ties.
std::vector<float> Ties(int64_t count) {
  std::vector<float> x = RandomFloats(count, 1, -3, 3);
  for (float& value : x) value = std::round(value);
  return x;
}

TEST_P(BlockedPoolingTest, MaxIsThatOfThePlainKernelToTheBitTiesIncluded) {
  const std::vector<float> x = Ties(in().count());
  std::vector<float> y(static_cast<size_t>(out().count())), dx(x.size());
  std::vector<int32_t> mask(y.size());
  MaxPoolForward<float>(stream_, plain_, x.data(), y.data(), mask.data());
  const std::vector<float> dy = RandomFloats(out().count(), 2);
  MaskedPoolBackward<float>(stream_, plain_, mask.data(), dy.data(), dx.data());

  const std::vector<float> bx = Blocked(in(), x), bdy = Blocked(out(), dy);
  std::vector<float> by(bdy.size(), 7.0f), bdx(bx.size(), 7.0f);
  std::vector<uint8_t> where(by.size());
  BlockedMaxPoolForward(stream_, blocked_, c_.channels, bx.data(), by.data(), where.data());
  EXPECT_EQ(Plain(out(), by), y);
  BlockedMaxPoolBackward(stream_, blocked_, where.data(), bdy.data(), bdx.data());
  EXPECT_LE(LargestError(dx, Plain(in(), bdx)), 1e-6);  // overlapping windows add in another order
  std::vector<float> without(by.size(), 7.0f);
  BlockedMaxPoolForward(stream_, blocked_, c_.channels, bx.data(), without.data(), nullptr);
  EXPECT_EQ(without, by);
}

TEST_P(BlockedPoolingTest, AverageIsThatOfThePlainKernel) {
  const std::vector<float> x = RandomFloats(in().count(), 1), dy = RandomFloats(out().count(), 2);
  std::vector<float> y(dy.size()), dx(x.size());
  AveragePoolForward<float>(stream_, plain_, x.data(), y.data());
  AveragePoolBackward<float>(stream_, plain_, dy.data(), dx.data());

  const std::vector<float> bx = Blocked(in(), x), bdy = Blocked(out(), dy);
  std::vector<float> by(bdy.size(), 7.0f), bdx(bx.size(), 7.0f);
  BlockedAveragePoolForward(stream_, blocked_, bx.data(), by.data());
  EXPECT_EQ(Plain(out(), by), y);
  BlockedAveragePoolBackward(stream_, blocked_, bdy.data(), bdx.data());
  EXPECT_EQ(Plain(in(), bdx), dx);
}

INSTANTIATE_TEST_SUITE_P(Geometries, BlockedPoolingTest,
                         ::testing::Combine(::testing::ValuesIn(kCases), ::testing::Values(1, 3)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + "_" +
                                  std::to_string(std::get<1>(info.param)) + "Threads";
                         });

}  // namespace
}  // namespace carafe
