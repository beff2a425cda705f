// Interp and Upsample.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

struct Case {
  const char* name;
  const char* text;
  Shape bottom, top;
};
const Case kCases[] = {
    {"InterpToASize",
     "type: 'Interp' interp_param { height: 5 width: 7 }",
     {2, 2, 3, 4},
     {2, 2, 5, 7}},
    {"InterpToASmallerSize",
     "type: 'Interp' interp_param { height: 2 width: 3 }",
     {1, 2, 5, 6},
     {1, 2, 2, 3}},
    {"InterpToOneElement",
     "type: 'Interp' interp_param { height: 1 width: 1 }",
     {1, 2, 3, 3},
     {1, 2, 1, 1}},
    {"InterpFromOneElement",
     "type: 'Interp' interp_param { height: 3 width: 2 }",
     {1, 2, 1, 1},
     {1, 2, 3, 2}},
    {"InterpZoom", "type: 'Interp' interp_param { zoom_factor: 3 }", {1, 2, 3, 2}, {1, 2, 7, 4}},
    {"InterpShrink",
     "type: 'Interp' interp_param { shrink_factor: 2 }",
     {1, 1, 6, 5},
     {1, 1, 3, 3}},
    {"InterpShrinkThenZoom",
     "type: 'Interp' interp_param { shrink_factor: 2 zoom_factor: 4 }",
     {1, 1, 6, 5},
     {1, 1, 9, 9}},
    {"InterpCropped",
     "type: 'Interp' interp_param { zoom_factor: 2 pad_beg: -1 pad_end: -2 }",
     {1, 2, 6, 5},
     {1, 2, 5, 3}},
    {"UpsampleByTwo", "type: 'Upsample'", {2, 2, 2, 3}, {2, 2, 4, 6}},
    {"UpsampleByThree", "type: 'Upsample' upsample_param { scale: 3 }", {1, 2, 2, 1}, {1, 2, 6, 3}},
    {"UpsampleRectangular",
     "type: 'Upsample' upsample_param { scale_h: 1 scale_w: 4 }",
     {1, 2, 2, 2},
     {1, 2, 2, 8}},
};

class ResizeTest : public ::testing::TestWithParam<Case> {};
TEST_P(ResizeTest, InfersTopShapeAndGradients) {
  LayerTester<double> layer(GetParam().text, GetParam().bottom);
  EXPECT_EQ(layer.top().shape(), GetParam().top);
  EXPECT_LT(GradientError(layer), 1e-9);
}
INSTANTIATE_TEST_SUITE_P(Layers, ResizeTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(Interp, PutsCornersOnCornersAndIsLinearBetween) {
  LayerTester<double> layer("type: 'Interp' interp_param { height: 3 width: 5 }", {1, 1, 2, 3});
  layer.SetBottom({0, 2, 6, 10, 12, 16}).Forward();
  EXPECT_THAT(layer.top_values(),
              Pointwise(DoubleNear(1e-12), {0, 1, 2, 4, 6, 5, 6, 7, 9, 11, 10, 11, 12, 14, 16}));
}

TEST(Interp, CopiesWhereTheSizeStays) {
  LayerTester<float> layer("type: 'Interp' interp_param { height: 7 width: 5 }", {1, 2, 7, 5});
  EXPECT_EQ(layer.Forward().top_values(), layer.bottom_values());
}

TEST(Interp, LeavesWhatIsCroppedWithoutGradient) {
  LayerTester<double> layer(
      "type: 'Interp' interp_param { height: 1 width: 2 pad_beg: -1 pad_end: -1 }", {1, 1, 3, 4});
  layer.SetBottom({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}).SetTopDiff({3, 4}).Forward().Backward();
  EXPECT_THAT(layer.top_values(), ElementsAre(5, 6));
  EXPECT_THAT(layer.bottom_diff(), ElementsAre(0, 0, 0, 0, 0, 3, 4, 0, 0, 0, 0, 0));
}

TEST(Upsample, RepeatsElements) {
  LayerTester<float> layer("type: 'Upsample' upsample_param { scale_h: 2 scale_w: 3 }",
                           {1, 1, 2, 2});
  layer.SetBottom({1, 2, 3, 4}).Forward();
  EXPECT_THAT(layer.top_values(), ElementsAre(1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2,  //
                                              3, 3, 3, 4, 4, 4, 3, 3, 3, 4, 4, 4));
}

TEST(Upsample, PutsMaximaBackToWhereTheMaskSays) {
  LayerTester<double> pool("type: 'Pooling' pooling_param { kernel_size: 2 stride: 2 }",
                           {1, 2, 2, 4}, {.tops = 2});
  pool.SetBottom({1, 2, 5, 4, 3, 0, 2, 1, 9, 8, 7, 6, 5, 4, 3, 8}).Forward();
  LayerTester<double> layer("type: 'Upsample'", {{1, 2, 1, 2}, {1, 2, 1, 2}});
  layer.SetBottom(pool.top_values(0)).SetBottom(pool.top_values(1), 1).Forward();
  EXPECT_THAT(layer.top_values(), ElementsAre(0, 0, 5, 0, 3, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 8));
  EXPECT_LT(GradientError(layer, {.bottoms = {0}}), 1e-9);
  layer.Forward().SetTopDiff(std::vector<double>(16, 1)).Backward({true, true});
  EXPECT_THAT(layer.bottom_diff(1), ElementsAre(0, 0, 0, 0));
}

TEST(Upsample, TakesItsSizeFromTheFileWhereThereIsAMask) {
  const Shapes bottoms = {{1, 1, 2, 2}, {1, 1, 2, 2}};
  LayerTester<float> odd("type: 'Upsample' upsample_param { pad_out_h: true pad_out_w: true }",
                         bottoms);
  EXPECT_EQ(odd.top().shape(), (Shape{1, 1, 3, 3}));
  LayerTester<float> given("type: 'Upsample' upsample_param { upsample_h: 3 upsample_w: 5 }",
                           bottoms);
  EXPECT_EQ(given.top().shape(), (Shape{1, 1, 3, 5}));
  given.SetBottom({1, 2, 3, 4}).SetBottom({0, 14, 15, -1}, 1).Forward();
  std::vector<float> expected(15, 0);  // 15 and -1 lie outside of the plane
  expected[0] = 1;
  expected[14] = 2;
  EXPECT_EQ(given.top_values(), expected);
}

struct BadCase {
  const char* name;
  const char* text;
  Shapes bottoms;
  const char* error;
};
const BadCase kBadCases[] = {
    {"InterpWithoutASize",
     "type: 'Interp'",
     {{1, 1, 2, 2}},
     "neither height and width nor a factor is given"},
    {"InterpWithBoth",
     "type: 'Interp' interp_param { height: 2 width: 2 zoom_factor: 2 }",
     {{1, 1, 2, 2}},
     "sizes and factors are both given"},
    {"InterpWithHalfASize",
     "type: 'Interp' interp_param { height: 2 }",
     {{1, 1, 2, 2}},
     "height is 2 and width 0"},
    {"InterpZoomOfZero",
     "type: 'Interp' interp_param { zoom_factor: 0 }",
     {{1, 1, 2, 2}},
     "zoom_factor is 0"},
    {"InterpShrinkOfZero",
     "type: 'Interp' interp_param { shrink_factor: 0 }",
     {{1, 1, 2, 2}},
     "shrink_factor is 0"},
    {"InterpWithPadding",
     "type: 'Interp' interp_param { zoom_factor: 2 pad_beg: 1 }",
     {{1, 1, 2, 2}},
     "pad_beg is 1: only cropping is supported"},
    {"InterpWithPaddingAtTheEnd",
     "type: 'Interp' interp_param { zoom_factor: 2 pad_end: 1 }",
     {{1, 1, 2, 2}},
     "pad_end is 1: only cropping is supported"},
    {"InterpOfNothing",
     "type: 'Interp' interp_param { zoom_factor: 2 pad_end: -2 }",
     {{1, 1, 4, 2}},
     "nothing remains of 4 x 2 after cutting off 2"},
    {"InterpOfThreeAxes",
     "type: 'Interp' interp_param { zoom_factor: 2 }",
     {{1, 2, 2}},
     "Interp needs a bottom of 4 axes (N, C, H, W), this one is 1 2 2 (4)"},
    {"UpsampleByZero",
     "type: 'Upsample' upsample_param { scale: 0 }",
     {{1, 1, 2, 2}},
     "the scale is 0 x 0"},
    {"UpsampleOfThreeAxes",
     "type: 'Upsample'",
     {{1, 2, 2}},
     "Upsample needs a bottom of 4 axes (N, C, H, W), this one is 1 2 2 (4)"},
    {"UpsampleToASizeWithoutMask",
     "type: 'Upsample' upsample_param { upsample_h: 3 upsample_w: 3 }",
     {{1, 1, 2, 2}},
     "upsample_h, upsample_w and pad_out need a mask as second bottom"},
    {"UpsampleToHalfASize",
     "type: 'Upsample' upsample_param { upsample_h: 3 }",
     {{1, 1, 2, 2}, {1, 1, 2, 2}},
     "upsample_h is 3 and upsample_w 0"},
    {"UpsampleWithAnotherMask",
     "type: 'Upsample'",
     {{1, 1, 2, 2}, {1, 1, 2, 3}},
     "the mask is 1 1 2 3 (6), the bottom 1 1 2 2 (4)"},
};

class ResizeRefusesTest : public ::testing::TestWithParam<BadCase> {};
TEST_P(ResizeRefusesTest, WithCauseAndRemedy) {
  const std::string error =
      ErrorText<ConfigError>([] { LayerTester<float>(GetParam().text, GetParam().bottoms); });
  EXPECT_THAT(error, HasSubstr(std::string("): ") + GetParam().error + "\n  fix: "));
}
INSTANTIATE_TEST_SUITE_P(Layers, ResizeRefusesTest, ::testing::ValuesIn(kBadCases),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace carafe
