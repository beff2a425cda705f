#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::DoubleNear;
using ::testing::Pointwise;

TEST(SmoothL1Loss, SquaresSmallDifferencesAndTakesTheSizeOfLargeOnes) {
  LayerTester<double> layer("type: 'SmoothL1Loss'", {{2, 2}, {2, 2}});
  layer.SetBottom({0.5, 3, 0, 1}).SetBottom({0, 0, 2, 1}, 1).Forward().Backward({true, true});
  EXPECT_NEAR(layer.top_values()[0], (0.125 + 2.5 + 1.5 + 0) / 2, 1e-12);
  EXPECT_THAT(layer.bottom_diff(0), Pointwise(DoubleNear(1e-12), {0.25, 0.5, -0.5, 0.0}));
  EXPECT_THAT(layer.bottom_diff(1), Pointwise(DoubleNear(1e-12), {-0.25, -0.5, 0.5, 0.0}));
}

TEST(SmoothL1Loss, ChangesOverAtOneOverTheSquareOfSigma) {
  LayerTester<double> layer("type: 'SmoothL1Loss' smooth_l1_loss_param { sigma: 2 }",
                            {{1, 2}, {1, 2}});
  layer.SetBottom({0.125, 1}).SetBottom({0, 0}, 1).Forward();
  EXPECT_NEAR(layer.top_values()[0], 2 * 0.125 * 0.125 + 1 - 0.125, 1e-12);
}

TEST(SmoothL1Loss, WeighsInsideAndOutside) {
  LayerTester<double> layer("type: 'SmoothL1Loss'", {{1, 3}, {1, 3}, {1, 3}, {1, 3}});
  layer.SetBottom({1, 1, 9}).SetBottom({0, 0, 0}, 1).SetBottom({0.5, 4, 0}, 2);
  layer.SetBottom({2, 10, 7}, 3).Forward();
  EXPECT_NEAR(layer.top_values()[0], 2 * 0.125 + 10 * 3.5, 1e-12);
}

TEST(SmoothL1Loss, HasRightGradients) {
  const Shape shape{3, 4, 2};
  for (const int bottoms : {2, 3, 4}) {
    for (const char* param : {"", "sigma: 3", "sigma: 0.4"}) {
      const std::string text =
          std::string("type: 'SmoothL1Loss' loss_weight: 2 smooth_l1_loss_param { ") + param + " }";
      LayerTester<double> layer(text, Shapes(static_cast<size_t>(bottoms), shape));
      EXPECT_LT(GradientError(layer), 1e-6) << bottoms << " " << param;
    }
  }
}

TEST(SmoothL1Loss, RefusesWhatDoesNotFit) {
  EXPECT_EQ(
      ErrorText<ConfigError>([] {
        LayerTester<float>("type: 'SmoothL1Loss'", {{2, 2}, {2, 2}, {2, 3}});
      }),
      "test.prototxt: error: layer \"test\" (SmoothL1Loss): the bottoms have different numbers "
      "of elements: 2 2 (4) and 2 3 (6)\n  fix: give bottoms of the same size");
  EXPECT_EQ(ErrorText<ConfigError>([] {
              LayerTester<float>("type: 'SmoothL1Loss' smooth_l1_loss_param {\nsigma: 0 }",
                                 {{2, 2}, {2, 2}});
            }),
            "test.prototxt:2:1: error: layer \"test\" (SmoothL1Loss): sigma is 0\n"
            "  fix: use a number above 0, e.g. sigma: 1");
  LayerTester<double> layer("type: 'SmoothL1Loss'", {{1, 2}, {1, 2}, {1, 2}});
  EXPECT_THROW(layer.Forward().Backward({true, false, true}), ConfigError);
}

}  // namespace
}  // namespace carafe
