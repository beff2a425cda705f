#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>

#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

TEST(SigmoidCrossEntropyLoss, DividesByTheBatchSizeByDefault) {
  LayerTester<double> layer("type: 'SigmoidCrossEntropyLoss'", {{2, 3}, {2, 3}});
  layer.SetBottom({0, 0, 0, 0, 0, 0}).SetBottom({1, 0, 1, 0.5, 1, 0}, 1).Forward();
  EXPECT_NEAR(layer.top_values()[0], 6 * std::log(2.0) / 2, 1e-12);
}

TEST(SigmoidCrossEntropyLoss, HasRightGradientsForEveryNormalisation) {
  const std::pair<const char*, double> modes[] = {{"", 2},
                                                  {"normalization: FULL", 6},
                                                  {"normalization: VALID", 5},
                                                  {"normalization: NONE", 1},
                                                  {"normalize: true", 5},
                                                  {"normalize: false", 2}};
  for (const auto& [mode, divisor] : modes) {
    LayerTester<double> layer(
        std::string("type: 'SigmoidCrossEntropyLoss' loss_param { ignore_label: 2 ") + mode + "}",
        {{2, 3}, {2, 3}});
    layer.SetBottom({1, 0, 2, 0.3, 1, 0}, 1);
    EXPECT_LT(GradientError(layer), 1e-8) << mode;
    layer.SetBottom({0, 0, 0, 0, 0, 0}).Forward();
    EXPECT_NEAR(layer.top_values()[0], 5 * std::log(2.0) / divisor, 1e-12) << mode;
  }
}

TEST(SigmoidCrossEntropyLoss, StaysFiniteFarFromZero) {
  LayerTester<float> layer("type: 'SigmoidCrossEntropyLoss'", {{1, 4}, {1, 4}});
  layer.SetBottom({500, -500, 500, -500}).SetBottom({1, 0, 0, 1}, 1).Forward().Backward();
  EXPECT_THAT(layer.top_values(), ElementsAre(1000));
  EXPECT_THAT(layer.bottom_diff(), ElementsAre(0, 0, 1, -1));
}

}  // namespace
}  // namespace carafe
