#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

TEST(ReLU, CutsNegativeValuesOrScalesThemBySlope) {
  LayerTester<float> plain("type: \"ReLU\"", {1, 4});
  plain.SetBottom({-2, 0, 1, 3}).SetTopDiff({5, 6, 7, 8}).Forward().Backward();
  EXPECT_THAT(plain.top_values(), ::testing::ElementsAre(0, 0, 1, 3));
  EXPECT_THAT(plain.bottom_diff(), ::testing::ElementsAre(0, 0, 7, 8));

  LayerTester<float> leaky("type: \"ReLU\" relu_param { negative_slope: 0.5 }", {1, 4});
  leaky.SetBottom({-2, 0, 1, 3}).SetTopDiff({5, 6, 7, 8}).Forward().Backward();
  EXPECT_THAT(leaky.top_values(), ::testing::ElementsAre(-1, 0, 1, 3));
  EXPECT_THAT(leaky.bottom_diff(), ::testing::ElementsAre(2.5, 3, 7, 8));
}

TEST(ReLU, HasRightGradientsAlsoInPlace) {
  for (const bool in_place : {false, true}) {
    for (const char* param : {"", "relu_param { negative_slope: 0.1 engine: CUDNN }"}) {
      LayerTester<double> layer(std::string("type: \"ReLU\" ") + param, {2, 3, 4},
                                {.in_place = in_place});
      EXPECT_LT(GradientError(layer, {.kinks = {0}}), 1e-9) << param << in_place;
    }
  }
}

}  // namespace
}  // namespace carafe
