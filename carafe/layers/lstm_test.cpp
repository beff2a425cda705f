#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::DoubleNear;
using ::testing::Pointwise;

// One step of one unit with the bias as the only input: sums of i, f, o and g, in that order.
TEST(LSTM, FollowsItsFormula) {
  LayerTester<double> layer("type: 'LSTM' recurrent_param { num_output: 1 }", {{2, 1, 1}, {2, 1}});
  EXPECT_EQ(layer.param(0).shape(), (Shape{4, 1}));
  EXPECT_EQ(layer.param(1).shape(), (Shape{4}));
  EXPECT_EQ(layer.param(2).shape(), (Shape{4, 1}));
  layer.SetParam(0, {0, 0, 0, 0}).SetParam(1, {1, 2, 3, 0.5}).SetParam(2, {0, 0, 0, 0});
  layer.SetBottom({0, 1}, 1).Forward();
  const auto s = [](double x) { return 1 / (1 + std::exp(-x)); };
  const double first = s(1) * std::tanh(0.5), second = s(2) * first + s(1) * std::tanh(0.5);
  EXPECT_THAT(layer.top_values(),
              Pointwise(DoubleNear(1e-12), {s(3) * std::tanh(first), s(3) * std::tanh(second)}));
}

}  // namespace
}  // namespace carafe
