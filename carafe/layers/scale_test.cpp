#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

struct Case {
  const char* name;
  const char* param;
  Shapes bottoms;
  Shape operand;
};
const Shape kX{2, 3, 4, 2};
const Case kCases[] = {
    {"PerChannel", "", {kX}, {3}},
    {"FromAxisZero", "axis: 0", {kX}, {2}},
    {"FromTheEnd", "axis: -1", {kX}, {2}},
    {"OverTwoAxes", "num_axes: 2", {kX}, {3, 4}},
    {"OverAllAxes", "axis: 0 num_axes: -1", {kX}, kX},
    {"ByAScalar", "num_axes: 0", {kX}, Shape{}},
    {"ByASecondBottom", "", {kX, {3}}, {3}},
    {"ByASecondBottomInTheMiddle", "", {kX, {3, 4}}, {3, 4}},
    {"ByASecondBottomFromAxisZero", "axis: 0", {kX, {2, 3}}, {2, 3}},
    {"ByASecondBottomAtTheEnd", "axis: -2", {kX, {4, 2}}, {4, 2}},
    {"ByASecondBottomOfOneNumber", "", {kX, Shape{}}, Shape{}},
};

class ScaleTest : public ::testing::TestWithParam<Case> {};
TEST_P(ScaleTest, HasRightShapesAndGradientsAlsoInPlace) {
  const Case& c = GetParam();
  for (const bool in_place : {false, true}) {
    for (const char* bias : {"", " bias_term: true"}) {
      const std::string text = std::string("type: 'Scale' scale_param {") + c.param + bias + "}";
      LayerTester<double> layer(text, c.bottoms, {.in_place = in_place});
      EXPECT_EQ(layer.top().shape(), kX);
      EXPECT_EQ(layer.num_params(), (c.bottoms.size() == 1) + (bias[0] != 0));
      for (int i = 0; i < layer.num_params(); ++i) EXPECT_EQ(layer.param(i).shape(), c.operand);
      EXPECT_LT(GradientError(layer), 1e-8) << bias << in_place;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Layers, ScaleTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(Scale, StartsAsTheIdentityAndMultipliesChannels) {
  LayerTester<float> layer("type: 'Scale' scale_param { bias_term: true }", {1, 2, 2});
  layer.SetBottom({1, 2, 3, 4}).Forward();
  EXPECT_THAT(layer.top_values(), ElementsAre(1, 2, 3, 4));
  layer.SetParam(0, {2, -1}).SetParam(1, {10, 20}).Forward();
  EXPECT_THAT(layer.top_values(), ElementsAre(12, 14, 17, 16));
}

TEST(Scale, RefusesOperandsThatDoNotFit) {
  EXPECT_EQ(ErrorText<ConfigError>([] {
              LayerTester<float>("type: 'Scale'", {{2, 3}, {4}});
            }),
            "test.prototxt: error: layer \"test\" (Scale): its shape 4 (4) is not that of the axes "
            "from 1 on of bottom 0 (2 3 (6))\n"
            "  fix: give a second bottom whose axes match, or another axis");
}

}  // namespace
}  // namespace carafe
