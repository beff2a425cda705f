#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

// All sums 0: i = f = o = 1/2, g = 0.
TEST(LSTMUnit, FollowsItsFormula) {
  LayerTester<double> layer("type: 'LSTMUnit'", {{1, 2, 1}, {1, 2, 4}, {1, 2}});
  layer.SetBottom({4, 4}, 0).SetBottom({0, 0, 0, 0, 0, 0, 0, 1}, 1).SetBottom({1, 0}, 2).Forward();
  const double second = 0.5 * std::tanh(1.0);
  EXPECT_THAT(layer.top_values(0),
              ::testing::Pointwise(::testing::DoubleNear(1e-12), {2.0, second}));
  EXPECT_THAT(layer.top_values(1),
              ::testing::Pointwise(::testing::DoubleNear(1e-12),
                                   {0.5 * std::tanh(2.0), 0.5 * std::tanh(second)}));
}

TEST(LSTMUnit, HasRightGradientsAndChecksShapes) {
  LayerTester<double> layer("type: 'LSTMUnit'", {{1, 2, 3}, {1, 2, 12}, {1, 2}});
  layer.SetBottom({1, 0}, 2);
  EXPECT_LT(GradientError(layer), 1e-7);
  EXPECT_FALSE(layer.layer().AllowForceBackward(2));
  EXPECT_THROW(LayerTester<float>("type: 'LSTMUnit'", {{1, 2, 3}, {1, 2, 3}, {1, 2}}), ConfigError);
}

}  // namespace
}  // namespace carafe
