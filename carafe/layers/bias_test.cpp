#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

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

class BiasTest : public ::testing::TestWithParam<Case> {};
TEST_P(BiasTest, HasRightShapesAndGradientsAlsoInPlace) {
  const Case& c = GetParam();
  for (const bool in_place : {false, true}) {
    LayerTester<double> layer(std::string("type: 'Bias' bias_param {") + c.param + "}", c.bottoms,
                              {.in_place = in_place});
    EXPECT_EQ(layer.top().shape(), kX);
    EXPECT_EQ(layer.num_params(), c.bottoms.size() == 1);
    for (int i = 0; i < layer.num_params(); ++i) EXPECT_EQ(layer.param(i).shape(), c.operand);
    EXPECT_LT(GradientError(layer), 1e-8) << in_place;
  }
}
INSTANTIATE_TEST_SUITE_P(Layers, BiasTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(Bias, StartsAtZeroAndAddsToChannels) {
  LayerTester<float> layer("type: 'Bias'", {1, 2, 2});
  layer.SetBottom({1, 2, 3, 4}).Forward();
  EXPECT_THAT(layer.top_values(), ElementsAre(1, 2, 3, 4));
  layer.SetParam(0, {10, 20}).SetTopDiff({1, 2, 3, 4}).Forward().Backward();
  EXPECT_THAT(layer.top_values(), ElementsAre(11, 12, 23, 24));
  EXPECT_THAT(layer.param_diff(0), ElementsAre(3, 7));
}

TEST(Bias, RefusesOperandsThatDoNotFit) {
  EXPECT_EQ(
      ErrorText<ConfigError>([] {
        LayerTester<float>("type: 'Bias' bias_param {\n num_axes: 2 }", {2, 3});
      }),
      "test.prototxt:2:2: error: layer \"test\" (Bias): axis 1 and num_axes 2 reach beyond the "
      "bottom's shape 2 3 (6)\n  fix: use fewer axes, or -1 for all that there are");
}

}  // namespace
}  // namespace carafe
