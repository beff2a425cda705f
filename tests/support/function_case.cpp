#include "tests/support/function_case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/layer_tester.h"

namespace carafe {

void ExpectFollowsFormula(const FunctionCase& test) {
  for (const bool in_place : {false, true}) {
    if (in_place && !test.in_place) continue;
    LayerTester<double> layer(test.text, {2, 3, 4}, {.in_place = in_place});
    std::vector<double> x = layer.bottom_values(), expected;
    for (double& value : x) {
      if (value < test.least) value = test.least + std::fabs(value);
      expected.push_back(test.function(value));
    }
    layer.SetBottom(x).Forward();
    EXPECT_EQ(layer.top().shape(), (Shape{2, 3, 4}));
    EXPECT_THAT(layer.top_values(), ::testing::Pointwise(::testing::DoubleNear(1e-12), expected));
    EXPECT_LT(GradientError(layer, {.kinks = test.kinks}), 1e-6) << "in place: " << in_place;
  }
}

void ExpectFiniteFarFromZero(const std::string& type) {
  LayerTester<float> layer("type: '" + type + "'", {2});
  layer.SetBottom({-1000, 1000}).SetTopDiff({1, 1}).Forward().Backward();
  for (const float value : layer.top_values()) EXPECT_TRUE(std::isfinite(value));
  for (const float value : layer.bottom_diff()) EXPECT_TRUE(std::isfinite(value));
}

}  // namespace carafe
