#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/function_case.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

TEST(AbsVal, FollowsItsFormulaAndHasRightGradients) {
  ExpectFollowsFormula({.text = "type: 'AbsVal'",
                        .function = [](double x) { return std::fabs(x); },
                        .kinks = {0},
                        .in_place = false});
}

TEST(AbsVal, HasSlopeZeroAtZero) {
  LayerTester<float> layer("type: 'AbsVal'", {3});
  layer.SetBottom({-2, 0, 2}).SetTopDiff({1, 1, 1}).Forward().Backward();
  EXPECT_THAT(layer.bottom_diff(), ::testing::ElementsAre(-1, 0, 1));
}

}  // namespace
}  // namespace carafe
