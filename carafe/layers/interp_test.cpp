#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

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
    {"ToASize", "type: 'Interp' interp_param { height: 5 width: 7 }", {2, 2, 3, 4}, {2, 2, 5, 7}},
    {"ToASmallerSize",
     "type: 'Interp' interp_param { height: 2 width: 3 }",
     {1, 2, 5, 6},
     {1, 2, 2, 3}},
    {"ToOneElement",
     "type: 'Interp' interp_param { height: 1 width: 1 }",
     {1, 2, 3, 3},
     {1, 2, 1, 1}},
    {"FromOneElement",
     "type: 'Interp' interp_param { height: 3 width: 2 }",
     {1, 2, 1, 1},
     {1, 2, 3, 2}},
    {"Zoom", "type: 'Interp' interp_param { zoom_factor: 3 }", {1, 2, 3, 2}, {1, 2, 7, 4}},
    {"Shrink", "type: 'Interp' interp_param { shrink_factor: 2 }", {1, 1, 6, 5}, {1, 1, 3, 3}},
    {"ShrinkThenZoom",
     "type: 'Interp' interp_param { shrink_factor: 2 zoom_factor: 4 }",
     {1, 1, 6, 5},
     {1, 1, 9, 9}},
    {"Cropped",
     "type: 'Interp' interp_param { zoom_factor: 2 pad_beg: -1 pad_end: -2 }",
     {1, 2, 6, 5},
     {1, 2, 5, 3}},
};

class InterpTest : public ::testing::TestWithParam<Case> {};
TEST_P(InterpTest, InfersTopShapeAndGradients) {
  LayerTester<double> layer(GetParam().text, GetParam().bottom);
  EXPECT_EQ(layer.top().shape(), GetParam().top);
  EXPECT_LT(GradientError(layer), 1e-9);
}
INSTANTIATE_TEST_SUITE_P(Layers, InterpTest, ::testing::ValuesIn(kCases),
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

struct BadCase {
  const char* name;
  const char* text;
  Shapes bottoms;
  const char* error;
};
const BadCase kBadCases[] = {
    {"WithoutASize",
     "type: 'Interp'",
     {{1, 1, 2, 2}},
     "neither height and width nor a factor is given"},
    {"WithBoth",
     "type: 'Interp' interp_param { height: 2 width: 2 zoom_factor: 2 }",
     {{1, 1, 2, 2}},
     "sizes and factors are both given"},
    {"WithHalfASize",
     "type: 'Interp' interp_param { height: 2 }",
     {{1, 1, 2, 2}},
     "height is 2 and width 0"},
    {"ZoomOfZero",
     "type: 'Interp' interp_param { zoom_factor: 0 }",
     {{1, 1, 2, 2}},
     "zoom_factor is 0"},
    {"ShrinkOfZero",
     "type: 'Interp' interp_param { shrink_factor: 0 }",
     {{1, 1, 2, 2}},
     "shrink_factor is 0"},
    {"WithPadding",
     "type: 'Interp' interp_param { zoom_factor: 2 pad_beg: 1 }",
     {{1, 1, 2, 2}},
     "pad_beg is 1: only cropping is supported"},
    {"WithPaddingAtTheEnd",
     "type: 'Interp' interp_param { zoom_factor: 2 pad_end: 1 }",
     {{1, 1, 2, 2}},
     "pad_end is 1: only cropping is supported"},
    {"OfNothing",
     "type: 'Interp' interp_param { zoom_factor: 2 pad_end: -2 }",
     {{1, 1, 4, 2}},
     "nothing remains of 4 x 2 after cutting off 2"},
    {"OfThreeAxes",
     "type: 'Interp' interp_param { zoom_factor: 2 }",
     {{1, 2, 2}},
     "Interp needs a bottom of 4 axes (N, C, H, W), this one is 1 2 2 (4)"},
};

class InterpRefusesTest : public ::testing::TestWithParam<BadCase> {};
TEST_P(InterpRefusesTest, WithCauseAndRemedy) {
  const std::string error =
      ErrorText<ConfigError>([] { LayerTester<float>(GetParam().text, GetParam().bottoms); });
  EXPECT_THAT(error, HasSubstr(std::string("): ") + GetParam().error + "\n  fix: "));
}
INSTANTIATE_TEST_SUITE_P(Layers, InterpRefusesTest, ::testing::ValuesIn(kBadCases),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace carafe
