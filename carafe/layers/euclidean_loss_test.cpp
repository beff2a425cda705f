#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

TEST(EuclideanLoss, IsHalfTheMeanSquaredDistance) {
  LayerTester<double> layer("type: 'EuclideanLoss'", {{2, 2}, {2, 2}});
  layer.SetBottom({1, 2, 3, 4}, 0).SetBottom({1, 0, 0, 8}, 1).Forward().Backward();
  EXPECT_THAT(layer.top_values(), ElementsAre((4 + 9 + 16) / 4.0));
  EXPECT_THAT(layer.bottom_diff(0), ElementsAre(0, 1, 1.5, -2));
  EXPECT_THAT(layer.bottom_diff(1), ElementsAre(0, -1, -1.5, 2));
}

TEST(EuclideanLoss, HasRightGradientsForBothBottoms) {
  LayerTester<double> layer("type: 'EuclideanLoss' loss_weight: 3", {{2, 3, 2}, {2, 6}});
  EXPECT_LT(GradientError(layer), 1e-8);
  EXPECT_EQ(
      ErrorText<ConfigError>([] {
        LayerTester<float>("type: 'EuclideanLoss'", {{2, 3}, {2, 2}});
      }),
      "test.prototxt: error: layer \"test\" (EuclideanLoss): the bottoms have different numbers "
      "of elements: 2 3 (6) and 2 2 (4)\n  fix: give bottoms of the same size");
}

}  // namespace
}  // namespace carafe
