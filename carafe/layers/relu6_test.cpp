#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/function_case.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

TEST(Relu6, FollowsItsFormulaAndHasRightGradients) {
  ExpectFollowsFormula({.text = "type: 'ReLU6'",
                        .function = [](double x) { return std::min(6.0, std::max(0.0, x)); },
                        .kinks = {0, 6}});
}

TEST(Relu6, StopsAtSixAndPassesTheGradientStrictlyBetween) {
  for (const bool in_place : {false, true}) {
    LayerTester<float> layer("type: 'ReLU6'", {5}, {.in_place = in_place});
    layer.SetBottom({-2, 0, 5, 6, 9}).SetTopDiff({1, 2, 3, 4, 5}).Forward();
    EXPECT_THAT(layer.top_values(), ::testing::ElementsAre(0, 0, 5, 6, 6));
    EXPECT_THAT(layer.Backward().bottom_diff(), ::testing::ElementsAre(0, 0, 3, 0, 0));
  }
}

}  // namespace
}  // namespace carafe
