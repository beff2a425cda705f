#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

std::string Text(const std::string& param) {
  return "type: \"Pooling\" pooling_param { " + param + " }";
}

struct Case {
  const char* name;
  const char* param;
  Shape bottom, top;
};
const Case kCases[] = {
    {"MaxRoundsUp", "kernel_size: 3 stride: 2", {1, 2, 6, 5}, {1, 2, 3, 2}},
    {"MaxPadded", "kernel_size: 3 stride: 2 pad: 1", {1, 1, 6, 5}, {1, 1, 4, 3}},
    {"MaxDropsAWindowInThePadding", "kernel_size: 2 stride: 2 pad: 1", {1, 1, 3, 3}, {1, 1, 2, 2}},
    {"MaxRoundsDownOnRequest",
     "kernel_size: 3 stride: 2 round_mode: FLOOR",
     {1, 1, 6, 5},
     {1, 1, 2, 2}},
    {"MaxTwoByTwo", "kernel_size: 2 stride: 2", {2, 2, 4, 6}, {2, 2, 2, 3}},
    {"MaxTwoByTwoOnOddSizes", "kernel_size: 2 stride: 2", {1, 2, 5, 7}, {1, 2, 3, 4}},
    {"MaxRectangular",
     "kernel_h: 2 kernel_w: 3 stride_h: 1 stride_w: 2 pad_h: 1 pad_w: 0",
     {1, 1, 3, 5},
     {1, 1, 4, 2}},
    {"MaxGlobal", "global_pooling: true", {2, 2, 3, 4}, {2, 2, 1, 1}},
    {"MaxWindowWiderThanTheImage", "kernel_size: 3 stride: 2", {1, 1, 2, 2}, {1, 1, 1, 1}},
    {"Average", "pool: AVE kernel_size: 2", {1, 2, 3, 4}, {1, 2, 2, 3}},
    {"AveragePaddedRoundsUp",
     "pool: AVE kernel_size: 3 stride: 2 pad: 1",
     {1, 1, 4, 5},
     {1, 1, 3, 3}},
    {"AverageGlobal", "pool: AVE global_pooling: true engine: CUDNN", {1, 2, 3, 2}, {1, 2, 1, 1}},
    {"MaxByShape", "kernel_shape: [2, 3] stride_shape: [1, 2]", {1, 2, 3, 5}, {1, 2, 2, 2}},
    {"MaxOfRows", "kernel_shape: 3 stride: 2", {2, 2, 6}, {2, 2, 3}},
    {"MaxOfVolumesRoundsUp", "kernel_shape: 2 stride: 2", {1, 2, 3, 4, 5}, {1, 2, 2, 2, 3}},
    {"MaxOfVolumesDropsAWindowInThePadding",
     "kernel_shape: 2 stride: 2 pad: 1",
     {1, 1, 3, 3, 4},
     {1, 1, 2, 2, 3}},
    {"MaxOfVolumesByShape",
     "kernel_shape: [1, 2, 2] stride_shape: [1, 2, 2] pad_shape: [0, 1, 0] round_mode: FLOOR",
     {1, 2, 3, 4, 5},
     {1, 2, 3, 3, 2}},
    {"MaxOfVolumesGlobal", "global_pooling: true", {2, 2, 2, 3, 2}, {2, 2, 1, 1, 1}},
    {"AverageOfRows", "pool: AVE kernel_shape: 3 stride: 2 pad: 1", {2, 2, 6}, {2, 2, 4}},
    {"AverageOfVolumes",
     "pool: AVE kernel_shape: 3 stride_shape: 2 pad_shape: 1",
     {1, 2, 4, 3, 5},
     {1, 2, 3, 2, 3}},
    {"AverageOfVolumesGlobal", "pool: AVE global_pooling: true", {1, 2, 2, 3, 2}, {1, 2, 1, 1, 1}},
    {"AverageOfFourAxes", "pool: AVE kernel_shape: 2", {1, 1, 2, 3, 2, 3}, {1, 1, 1, 2, 1, 2}},
};

class PoolingTest : public ::testing::TestWithParam<Case> {};
TEST_P(PoolingTest, InfersTopShapeAndGradients) {
  LayerTester<double> layer(Text(GetParam().param), GetParam().bottom);
  EXPECT_EQ(layer.top().shape(), GetParam().top);
  EXPECT_LT(GradientError(layer), 1e-9);
}
INSTANTIATE_TEST_SUITE_P(Layers, PoolingTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(Pooling, TakesTheFirstOfEqualMaximaAndShowsWhere) {
  for (const char* kernel : {"kernel_size: 2 stride: 2",
                             "kernel_h: 2 kernel_w: 2 stride: 2 "
                             "round_mode: FLOOR"}) {
    LayerTester<float> layer(Text(kernel), {1, 2, 2, 4}, {.tops = 2});
    layer.SetBottom({1, 1, 0, 3, 1, 1, 3, 2, -5, -6, -7, -7, -6, -5, -8, -7});
    layer.SetTopDiff({10, 20, 30, 40}).Forward().Backward();
    EXPECT_THAT(layer.top_values(0), ElementsAre(1, 3, -5, -7));
    EXPECT_THAT(layer.top_values(1), ElementsAre(0, 3, 0, 2));
    EXPECT_THAT(layer.bottom_diff(),
                ElementsAre(10, 0, 0, 20, 0, 0, 0, 0, 30, 0, 40, 0, 0, 0, 0, 0));
  }
}

TEST(Pooling, GivesTheLeastFloatForAWindowOutsideTheImage) {
  LayerTester<float> layer(Text("kernel_size: 1 stride: 3"), {1, 1, 2, 2}, {.tops = 2});
  layer.SetBottom({1, 2, 3, 4}).SetTopDiff({1, 1, 1, 1}).Forward().Backward();
  EXPECT_THAT(layer.top_values(), ElementsAre(1, -FLT_MAX, -FLT_MAX, -FLT_MAX));
  EXPECT_THAT(layer.top_values(1), ElementsAre(0, -1, -1, -1));
  EXPECT_THAT(layer.bottom_diff(), ElementsAre(1, 0, 0, 0));
}

TEST(Pooling, DividesAveragesByTheWindowInsideThePaddedImage) {
  LayerTester<float> layer(Text("pool: AVE kernel_size: 3 pad: 1"), {1, 1, 3, 3});
  layer.SetBottom(std::vector<float>(9, 2)).Forward();
  const float corner = 8.f / 9, edge = 12.f / 9;
  EXPECT_THAT(layer.top_values(),
              ElementsAre(corner, edge, corner, edge, 2, edge, corner, edge, corner));
}

// A volume of one layer is an image: the general code gives what the code for images gives.
TEST(Pooling, TreatsAVolumeOfOneLayerAsAnImage) {
  const std::vector<std::pair<std::string, std::string>> settings = {
      {"kernel_h: 3 kernel_w: 2 stride_h: 2 stride_w: 1 pad_h: 1 pad_w: 0",
       "kernel_shape: [1, 3, 2] stride_shape: [1, 2, 1] pad_shape: [0, 1, 0]"},
      {"kernel_size: 3 stride: 2", "kernel_shape: [1, 3, 3] stride_shape: [1, 2, 2]"},
      {"kernel_size: 3 stride: 2 pad: 2",
       "kernel_shape: [1, 3, 3] stride_shape: [1, 2, 2] pad_shape: [0, 2, 2]"},
      {"kernel_size: 1 stride: 3", "kernel_shape: [1, 1, 1] stride_shape: [1, 3, 3]"}};
  for (const auto& [image, volume] : settings) {
    for (const std::string pool : {"pool: MAX ", "pool: AVE "}) {
      const int tops = pool == "pool: MAX " ? 2 : 1;
      LayerTester<double> a(Text(pool + image), {2, 3, 5, 6}, {.tops = tops});
      LayerTester<double> b(Text(pool + volume), {2, 3, 1, 5, 6}, {.tops = tops});
      b.SetBottom(a.bottom_values());
      for (int t = 0; t < tops; ++t) {
        EXPECT_EQ(b.Forward().top_values(t), a.Forward().top_values(t)) << pool << image;
      }
      std::vector<double> diff(a.top_values().size());
      for (size_t i = 0; i < diff.size(); ++i) diff[i] = static_cast<double>(i + 1);
      EXPECT_EQ(b.SetTopDiff(diff).Backward().bottom_diff(),
                a.SetTopDiff(diff).Backward().bottom_diff());
    }
  }
}

TEST(Pooling, TakesTheFirstOfEqualMaximaOfAVolume) {
  LayerTester<float> layer(Text("kernel_shape: 2"), {1, 1, 2, 2, 2}, {.tops = 2});
  layer.SetBottom({1, 2, 3, 5, 5, 4, 5, 0}).SetTopDiff({7}).Forward().Backward();
  EXPECT_THAT(layer.top_values(0), ElementsAre(5));
  EXPECT_THAT(layer.top_values(1), ElementsAre(3));
  EXPECT_THAT(layer.bottom_diff(), ElementsAre(0, 0, 0, 7, 0, 0, 0, 0));
}

TEST(Pooling, SamplesInProportionToTheValuesInTrain) {
  LayerTester<float> layer(Text("pool: STOCHASTIC kernel_size: 2 stride: 2"), {10, 100, 2, 4});
  std::vector<float> x;
  for (int i = 0; i < 1000; ++i) x.insert(x.end(), {1, 0, 0, 0, 3, 0, 0, 0});
  layer.SetBottom(x).SetTopDiff(std::vector<float>(2000, 1)).Forward().Backward();
  int threes = 0;
  const std::vector<float> y = layer.top_values(), dx = layer.bottom_diff();
  for (size_t i = 0; i < y.size(); i += 2) {
    ASSERT_TRUE(y[i] == 1 || y[i] == 3);
    ASSERT_EQ(dx[4 * i + (y[i] == 3 ? 4 : 0)], 1) << "the gradient goes where the value came from";
    threes += y[i] == 3;
  }
  EXPECT_NEAR(threes / 1000.0, 0.75, 0.05);
}

TEST(Pooling, SamplesTheSameHoweverTheBatchIsDealtOut) {
  const std::string text = Text("pool: STOCHASTIC kernel_size: 2 stride: 2");
  const std::vector<float> image = {1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<float> images;
  for (int i = 0; i < 4; ++i) images.insert(images.end(), image.begin(), image.end());
  LayerTester<float> whole(text, {4, 1, 2, 4});
  const std::vector<float> y = whole.SetBottom(images).Forward().top_values();
  for (int w = 0; w < 2; ++w) {
    LayerTester<float> part(text, {2, 1, 2, 4}, {.replica = {.index = w, .count = 2}});
    part.SetBottom({images.begin(), images.begin() + 16}).Forward();
    const size_t at = static_cast<size_t>(2 * w);
    EXPECT_THAT(part.top_values(), ElementsAre(y[at], y[at + 1], y[at + 4], y[at + 5]));
  }
}

TEST(Pooling, GivesTheExpectationOfTheSampleInTest) {
  const std::string text = Text("pool: STOCHASTIC kernel_size: 2 stride: 2");
  LayerTester<double> layer(text, {1, 1, 2, 4}, {.phase = TEST});
  layer.SetBottom({1, 0, 0, 0, 3, 0, 0, 0}).Forward();
  EXPECT_THAT(layer.top_values(), ElementsAre(10.0 / 4, 0));
  layer.SetBottom({1, 2, 3, 4, 0.5, 2, 3, 7});
  EXPECT_LT(GradientError(layer), 1e-7);
}

struct BadCase {
  const char* name;
  const char* param;
  Shape bottom;
  const char* error;
};
const BadCase kBadCases[] = {
    {"WithoutKernel", "pool: MAX", {1, 1, 3, 3}, "kernel_size is missing"},
    {"WithTwoFormsOfKernel",
     "kernel_size: 2 kernel_h: 2 kernel_w: 2",
     {1, 1, 3, 3},
     "kernel_size and kernel_h/kernel_w are both given"},
    {"WithOneNamedKernel", "kernel_h: 2", {1, 1, 3, 3}, "the kernel size is 0"},
    {"WithTwoFormsOfPad",
     "kernel_size: 2 pad: 1 pad_h: 1",
     {1, 1, 3, 3},
     "pad and pad_h/pad_w are both given"},
    {"WithTwoFormsOfStride",
     "kernel_size: 2 stride: 1 stride_w: 1",
     {1, 1, 3, 3},
     "stride and stride_h/stride_w are both given"},
    {"WithStrideZero", "kernel_size: 2 stride: 0", {1, 1, 3, 3}, "the stride is 0"},
    {"WithTooMuchPadding",
     "kernel_size: 2 pad: 2",
     {1, 1, 3, 3},
     "the padding (2) is not smaller than the kernel (2)"},
    {"WithKernelAndGlobalPooling",
     "kernel_size: 2 global_pooling: true",
     {1, 1, 3, 3},
     "global_pooling takes the whole image, but a kernel size is given"},
    {"WithStrideAndGlobalPooling",
     "stride: 2 global_pooling: true",
     {1, 1, 3, 3},
     "global_pooling has one window, but pad or stride is given"},
    {"WithPaddedSampling",
     "pool: STOCHASTIC kernel_size: 2 pad: 1",
     {1, 1, 3, 3},
     "STOCHASTIC pooling takes no padding"},
    {"WithThreeAxesAndKernelSize",
     "kernel_size: 2",
     {1, 3, 3},
     "Pooling by kernel_size needs a bottom of 4 axes (N, C, H, W), this one is 1 3 3 (9)"},
    {"WithFiveAxesAndNamedSizes",
     "kernel_h: 2 kernel_w: 2",
     {1, 1, 2, 2, 2},
     "Pooling by kernel_size needs a bottom of 4 axes (N, C, H, W), this one is 1 1 2 2 2 (8)"},
    {"WithTwoAxes",
     "kernel_shape: 2",
     {1, 3},
     "Pooling needs a bottom of 3 to 10 axes (N, C, ..), this one is 1 3 (3)"},
    {"WithSamplingOfVolumes",
     "pool: STOCHASTIC kernel_shape: 2",
     {1, 1, 2, 2, 2},
     "STOCHASTIC pooling needs a bottom of 4 axes (N, C, H, W), this one is 1 1 2 2 2 (8)"},
    {"WithNamedStridesForVolumes",
     "kernel_shape: 2 stride_h: 2 stride_w: 2",
     {1, 1, 2, 2, 2},
     "stride_h and stride_w need two spatial axes, the bottom has 3"},
    {"WithAShapeOfOtherLength",
     "kernel_shape: [2, 2, 2]",
     {1, 1, 3, 3},
     "kernel_shape is given 3 times, but the bottom has 2 spatial axes"},
    {"WithShapeAndSize",
     "kernel_size: 2 kernel_shape: 2",
     {1, 1, 3, 3},
     "kernel_shape and kernel_size are both given"},
    {"WithShapeAndNamedStride",
     "kernel_size: 2 stride_h: 1 stride_w: 1 stride_shape: 2",
     {1, 1, 3, 3},
     "stride_shape and stride_h/stride_w are both given"},
    {"WithAZeroInAShape", "kernel_shape: [2, 0]", {1, 1, 3, 3}, "the kernel size is 0"},
    {"WithAKernelLargerThanTheInput",
     "kernel_size: 5",
     {1, 1, 6, 3},
     "the kernel (5) is larger than axis 3 of the bottom (3 with 0 of padding on both sides)"},
};

class PoolingRefusesTest : public ::testing::TestWithParam<BadCase> {};
TEST_P(PoolingRefusesTest, WithCauseAndRemedy) {
  const std::string error =
      ErrorText<ConfigError>([] { LayerTester<float>(Text(GetParam().param), GetParam().bottom); });
  EXPECT_THAT(error, ::testing::HasSubstr(std::string("layer \"test\" (Pooling): ") +
                                          GetParam().error + "\n  fix: "));
}
INSTANTIATE_TEST_SUITE_P(Layers, PoolingRefusesTest, ::testing::ValuesIn(kBadCases),
                         [](const auto& info) { return info.param.name; });

TEST(Pooling, RefusesAMaskOfAverages) {
  EXPECT_EQ(
      ErrorText<ConfigError>([] {
        LayerTester<float>(
            "type: \"Pooling\" top: \"a\"\ntop: \"b\"\npooling_param { pool: AVE "
            "kernel_size: 2 }",
            {1, 1, 2, 2});
      }),
      "test.prototxt:2:1: error: layer \"test\" (Pooling): a second top (the positions of the "
      "maxima) needs pool: MAX\n  fix: leave the second top away, or use MAX");
}

TEST(Pooling, KeepsNothingForABackwardThatWillNotCome) {
  const TesterOptions blocked = {.format = Format::kBlocked8};
  const std::string text = Text("kernel_size: 2 stride: 2");
  LayerTester<float> keeping(text, {2, 8, 4, 6}, blocked), forgetting(text, {2, 8, 4, 6}, blocked);
  forgetting.layer().KeepForBackward(false);
  const std::vector<float> expected = keeping.Forward().top_values();
  EXPECT_EQ(forgetting.Forward().top_values(), expected);
  const std::vector<float> dy(expected.size(), 1);
  EXPECT_THROW(forgetting.SetTopDiff(dy).Backward(), InternalError);
  forgetting.layer().KeepForBackward(true);
  EXPECT_EQ(forgetting.Forward().SetTopDiff(dy).Backward().bottom_diff(),
            keeping.SetTopDiff(dy).Backward().bottom_diff());
}

}  // namespace
}  // namespace carafe
