#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

TEST(MultinomialLogisticLoss, TakesTheLogOfGivenProbabilities) {
  LayerTester<double> layer("type: 'MultinomialLogisticLoss'", {{2, 2}, {2}});
  layer.SetBottom({0.25, 0.75, 0, 1}).SetBottom({0, 0}, 1).Forward();
  EXPECT_NEAR(layer.top_values()[0], -(std::log(0.25) + std::log(1e-20)) / 2, 1e-12);
  layer.SetBottom({0.25, 0.75, 0.4, 0.6}).SetBottom({0, 1}, 1);
  EXPECT_LT(GradientError(layer), 1e-6);
  EXPECT_THROW(layer.SetBottom({0, 2}, 1).Forward(), DataError);
}

}  // namespace
}  // namespace carafe
