#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Case {
  const char* name;
  const char* text;
  Shape bottom, top;
};
const Case kCases[] = {
    {"ByTwo", "type: 'Upsample'", {2, 2, 2, 3}, {2, 2, 4, 6}},
    {"ByThree", "type: 'Upsample' upsample_param { scale: 3 }", {1, 2, 2, 1}, {1, 2, 6, 3}},
    {"Rectangular",
     "type: 'Upsample' upsample_param { scale_h: 1 scale_w: 4 }",
     {1, 2, 2, 2},
     {1, 2, 2, 8}},
};

class UpsampleTest : public ::testing::TestWithParam<Case> {};
TEST_P(UpsampleTest, InfersTopShapeAndGradients) {
  LayerTester<double> layer(GetParam().text, GetParam().bottom);
  EXPECT_EQ(layer.top().shape(), GetParam().top);
  EXPECT_LT(GradientError(layer), 1e-9);
}
INSTANTIATE_TEST_SUITE_P(Layers, UpsampleTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

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
    {"ByZero",
     "type: 'Upsample' upsample_param { scale: 0 }",
     {{1, 1, 2, 2}},
     "the scale is 0 x 0"},
    {"OfThreeAxes",
     "type: 'Upsample'",
     {{1, 2, 2}},
     "Upsample needs a bottom of 4 axes (N, C, H, W), this one is 1 2 2 (4)"},
    {"ToASizeWithoutMask",
     "type: 'Upsample' upsample_param { upsample_h: 3 upsample_w: 3 }",
     {{1, 1, 2, 2}},
     "upsample_h, upsample_w and pad_out need a mask as second bottom"},
    {"ToHalfASize",
     "type: 'Upsample' upsample_param { upsample_h: 3 }",
     {{1, 1, 2, 2}, {1, 1, 2, 2}},
     "upsample_h is 3 and upsample_w 0"},
    {"WithAnotherMask",
     "type: 'Upsample'",
     {{1, 1, 2, 2}, {1, 1, 2, 3}},
     "the mask is 1 1 2 3 (6), the bottom 1 1 2 2 (4)"},
};

class UpsampleRefusesTest : public ::testing::TestWithParam<BadCase> {};
TEST_P(UpsampleRefusesTest, WithCauseAndRemedy) {
  const std::string error =
      ErrorText<ConfigError>([] { LayerTester<float>(GetParam().text, GetParam().bottoms); });
  EXPECT_THAT(error, HasSubstr(std::string("): ") + GetParam().error + "\n  fix: "));
}
INSTANTIATE_TEST_SUITE_P(Layers, UpsampleRefusesTest, ::testing::ValuesIn(kBadCases),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace carafe
