#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::DoubleNear;
using ::testing::Pointwise;

// h(t) = tanh(x w + b + cont h(t-1) u), o(t) = tanh(h(t) v + c).
TEST(RNN, FollowsItsFormula) {
  LayerTester<double> layer("type: 'RNN' recurrent_param { num_output: 1 }", {{2, 1, 1}, {2, 1}});
  EXPECT_EQ(layer.num_params(), 5);
  const double w = 0.5, b = 0.1, u = 0.7, v = 1.5, c = -0.2;
  layer.SetParam(0, {w}).SetParam(1, {b}).SetParam(2, {u}).SetParam(3, {v}).SetParam(4, {c});
  layer.SetBottom({2, 3}).SetBottom({0, 1}, 1).Forward();
  const double first = std::tanh(2 * w + b), second = std::tanh(3 * w + b + first * u);
  EXPECT_THAT(layer.top_values(),
              Pointwise(DoubleNear(1e-12), {std::tanh(first * v + c), std::tanh(second * v + c)}));
}

}  // namespace
}  // namespace carafe
