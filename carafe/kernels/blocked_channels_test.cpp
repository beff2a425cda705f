#include "carafe/kernels/blocked_channels.h"

#include <gtest/gtest.h>

#include "carafe/kernels/activation.h"
#include "carafe/kernels/channels.h"
#include "tests/support/blocked_arrays.h"

namespace carafe {
namespace {

struct Case {
  const char* name;
  BlockedGeometry g;
  int threads;
};
const Case kCases[] = {
    {"OneBlock", {3, 8, 7}, 1},        {"PartOfABlock", {2, 3, 5}, 1},
    {"ManyBlocks", {4, 24, 49}, 1},    {"PadsTheLastBlock", {3, 21, 10}, 1},
    {"OnePixel", {6, 16, 1}, 1},       {"OneImage", {1, 16, 30}, 1},
    {"ThreeThreads", {5, 37, 130}, 3},
};

class BlockedChannelsTest : public ::testing::TestWithParam<Case> {
 protected:
  BlockedChannelsTest()
      : g_(GetParam().g),
        stream_(CpuDevice(), GetParam().threads),
        axis_{g_.images, g_.channels, g_.plane},
        x_(RandomFloats(g_.count(), 1, 4, 9)),  // far from 0: the variance must not suffer
        dy_(RandomFloats(g_.count(), 2)),
        scale_(RandomFloats(g_.channels, 3, 0.5f, 2)),
        shift_(RandomFloats(g_.channels, 4)),
        size_(static_cast<size_t>(g_.count())),
        channels_(static_cast<size_t>(g_.channels)) {}

  const BlockedGeometry g_;
  Stream stream_;
  const ChannelAxis axis_;
  const std::vector<float> x_, dy_, scale_, shift_;
  const size_t size_, channels_;
};

TEST_P(BlockedChannelsTest, ScalesAndShifts) {
  std::vector<float> expected(size_);
  for (size_t i = 0; i < size_; ++i) {
    const size_t c = i / static_cast<size_t>(g_.plane) % channels_;
    expected[i] = (x_[i] - 6) * scale_[c] + shift_[c];
  }
  std::vector<float> x = x_;
  for (float& value : x) value -= 6;
  std::vector<float> bx = Blocked(g_, x);
  BlockedScale(stream_, g_, scale_.data(), shift_.data(), false, bx.data(), bx.data());
  EXPECT_LT(LargestError(expected, Plain(g_, bx)), 1e-6);
  bx = Blocked(g_, x);
  BlockedScale(stream_, g_, scale_.data(), shift_.data(), true, bx.data(), bx.data());
  for (float& value : expected) value = std::max(value, 0.0f);
  EXPECT_LT(LargestError(expected, Plain(g_, bx)), 1e-6);
  bx = Blocked(g_, x);
  BlockedScale(stream_, g_, nullptr, nullptr, false, bx.data(), bx.data());
  EXPECT_EQ(Plain(g_, bx), x);
}

TEST_P(BlockedChannelsTest, AddsSumsAndProductsOfEachChannel) {
  std::vector<float> products(channels_, 2.0f), sums(channels_, 1.0f), ones(size_, 1.0f);
  AddChannelProducts<float>(stream_, axis_, x_.data(), dy_.data(), products.data());
  AddChannelProducts<float>(stream_, axis_, x_.data(), ones.data(), sums.data());
  std::vector<float> got_sums(channels_, 1.0f), got_products(channels_, 2.0f);
  BlockedAddSums(stream_, g_, Blocked(g_, x_).data(), Blocked(g_, dy_).data(), got_sums.data(),
                 got_products.data());
  EXPECT_LT(LargestError(sums, got_sums), 1e-6);
  EXPECT_LT(LargestError(products, got_products), 1e-5);
}

TEST_P(BlockedChannelsTest, FindsMeanAndVariance) {
  std::vector<float> mean(channels_), variance(channels_), got_mean(channels_), got(channels_);
  ChannelStatistics<float>(stream_, axis_, x_.data(), mean.data(), variance.data());
  BlockedStatistics(stream_, g_, Blocked(g_, x_).data(), got_mean.data(), got.data());
  EXPECT_LT(LargestError(mean, got_mean), 1e-6);
  EXPECT_LT(LargestError(variance, got), 1e-5);
}

TEST_P(BlockedChannelsTest, NormalizesForwardAndBackward) {
  std::vector<float> mean(channels_), variance(channels_), factor(channels_), y(size_), dx(size_);
  ChannelStatistics<float>(stream_, axis_, x_.data(), mean.data(), variance.data());
  InverseDeviation<float>(stream_, g_.channels, 1e-2f, variance.data(), factor.data());
  NormalizeChannels<float>(stream_, axis_, mean.data(), factor.data(), x_.data(), y.data());
  std::vector<float> scaled(size_), dscale(channels_, 3.0f), dshift(channels_, 4.0f), relu_dy = dy_;
  for (size_t i = 0; i < size_; ++i) {
    const size_t c = i / static_cast<size_t>(g_.plane) % channels_;
    scaled[i] = std::max(0.0f, y[i] * scale_[c] + shift_[c]);
    if (scaled[i] <= 0) relu_dy[i] = 0;
    dshift[c] += relu_dy[i];
  }
  AddChannelProducts<float>(stream_, axis_, relu_dy.data(), y.data(), dscale.data());
  ScaleChannels<float>(stream_, axis_, scale_.data(), relu_dy.data(), dx.data());
  NormalizeBackward<float>(stream_, axis_, factor.data(), y.data(), dx.data(), dx.data());

  const std::vector<float> bx = Blocked(g_, x_), bdy = Blocked(g_, dy_);
  std::vector<float> by(bx.size(), 7.0f), normalized(bx.size(), 7.0f), bdx(bx.size(), 7.0f);
  BlockedNormalize(stream_, g_, mean.data(), factor.data(), scale_.data(), shift_.data(),
                   /*relu=*/true, bx.data(), normalized.data(), by.data());
  EXPECT_EQ(Plain(g_, normalized), y);
  EXPECT_LT(LargestError(scaled, Plain(g_, by)), 1e-6);
  for (const bool from_x : {false, true}) {
    std::vector<float> got_scale(channels_, 3.0f), got_shift(channels_, 4.0f);
    BlockedNormalizeBackward(stream_, g_,
                             {.mean = from_x ? mean.data() : nullptr,
                              .factor = factor.data(),
                              .scale = scale_.data(),
                              .x = from_x ? bx.data() : normalized.data(),
                              .relu_of = by.data(),
                              .dy = bdy.data(),
                              .dscale = got_scale.data(),
                              .dshift = got_shift.data(),
                              .dx = bdx.data()});
    EXPECT_LT(LargestError(dscale, got_scale), 1e-5);
    EXPECT_LT(LargestError(dshift, got_shift), 1e-5);
    EXPECT_LT(LargestError(dx, Plain(g_, bdx)), 2e-5);
  }
}

TEST_P(BlockedChannelsTest, GivesEachChannelItsSlope) {
  std::vector<float> x = x_, y(size_), dx(size_), ds(channels_, 1.0f);
  for (float& value : x) value -= 6;
  PReluForward<float>(stream_, g_.images, g_.channels, g_.plane, scale_.data(), x.data(), y.data());
  PReluBackward<float>(stream_, g_.images, g_.channels, g_.plane, scale_.data(), x.data(),
                       dy_.data(), dx.data());
  PReluAddSlopeGradient<float>(stream_, g_.images, g_.channels, g_.plane, x.data(), dy_.data(),
                               ds.data());
  const std::vector<float> bx = Blocked(g_, x), bdy = Blocked(g_, dy_);
  std::vector<float> got(bx.size()), got_ds(channels_, 1.0f);
  BlockedPRelu(stream_, g_, scale_.data(), bx.data(), bx.data(), got.data());
  EXPECT_EQ(Plain(g_, got), y);
  BlockedPRelu(stream_, g_, scale_.data(), bx.data(), bdy.data(), got.data());
  EXPECT_EQ(Plain(g_, got), dx);
  BlockedAddPReluSlopes(stream_, g_, bx.data(), bdy.data(), got_ds.data());
  EXPECT_LT(LargestError(ds, got_ds), 1e-5);
}

TEST_P(BlockedChannelsTest, TakesMasksInPlainOrder) {
  std::vector<uint8_t> mask(size_);
  for (size_t i = 0; i < size_; ++i) mask[i] = i % 3 == 0 || i % 7 == 2;
  std::vector<float> y(size_), got(static_cast<size_t>(g_.padded_count()), 7.0f);
  MultiplyMask<float>(stream_, g_.count(), 1.25f, mask.data(), x_.data(), y.data());
  BlockedMultiplyMask(stream_, g_, 1.25f, mask.data(), Blocked(g_, x_).data(), got.data());
  EXPECT_EQ(Plain(g_, got), y);
}

INSTANTIATE_TEST_SUITE_P(Geometries, BlockedChannelsTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(BlockedChannels, SumsDoNotDependOnTheNumberOfThreads) {
  const BlockedGeometry g{7, 40, 400};
  const std::vector<float> x = Blocked(g, RandomFloats(g.count(), 1)),
                           dy = Blocked(g, RandomFloats(g.count(), 2));
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 2, 5}) {
    Stream stream(CpuDevice(), threads);
    std::vector<float> all(40 * 4 + x.size(), 0.0f);
    BlockedStatistics(stream, g, x.data(), all.data(), all.data() + 40);
    BlockedNormalizeBackward(stream, g,
                             {.mean = all.data(),
                              .factor = all.data() + 40,
                              .x = x.data(),
                              .dy = dy.data(),
                              .dscale = all.data() + 80,
                              .dshift = all.data() + 120,
                              .dx = all.data() + 160});
    results.push_back(all);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

}  // namespace
}  // namespace carafe
