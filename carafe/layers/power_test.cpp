#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/function_case.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

TEST(Power, FollowsItsFormulaAndHasRightGradients) {
  ExpectFollowsFormula(
      {.text = "type: 'Power'", .function = [](double x) { return x; }, .in_place = false});
}

TEST(Power, FollowsItsFormulaAndHasRightGradientsAsLinear) {
  ExpectFollowsFormula({.text = "type: 'Power' power_param { scale: 2 shift: -1 }",
                        .function = [](double x) { return 2 * x - 1; },
                        .in_place = false});
}

TEST(Power, FollowsItsFormulaAndHasRightGradientsAsSquare) {
  ExpectFollowsFormula({.text = "type: 'Power' power_param { power: 2 scale: 0.5 shift: 1 }",
                        .function = [](double x) { return (0.5 * x + 1) * (0.5 * x + 1); }});
}

TEST(Power, FollowsItsFormulaAndHasRightGradientsAsCube) {
  ExpectFollowsFormula({.text = "type: 'Power' power_param { power: 3 }",
                        .function = [](double x) { return x * x * x; }});
}

TEST(Power, FollowsItsFormulaAndHasRightGradientsAsRoot) {
  ExpectFollowsFormula({.text = "type: 'Power' power_param { power: 0.5 shift: 1 }",
                        .function = [](double x) { return std::sqrt(x + 1); },
                        .least = 0.1});
}

TEST(Power, FollowsItsFormulaAndHasRightGradientsAsZero) {
  ExpectFollowsFormula(
      {.text = "type: 'Power' power_param { power: 0 }", .function = [](double) { return 1.0; }});
}

TEST(Power, FollowsItsFormulaAndHasRightGradientsOfAConstant) {
  ExpectFollowsFormula({.text = "type: 'Power' power_param { power: 2 scale: 0 shift: 3 }",
                        .function = [](double) { return 9.0; }});
}

TEST(Power, InPlaceWithPower1HasTheGradientOfTheOriginal) {
  LayerTester<float> layer("type: 'Power' power_param { scale: 3 }", {2}, {.in_place = true});
  layer.SetBottom({1, -2}).Forward().SetTopDiff({5, 7}).Backward();
  EXPECT_THAT(layer.bottom_diff(), ::testing::ElementsAre(9, 9));
}

}  // namespace
}  // namespace carafe
