#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(L1Loss, IsTheMeanOverRowsOfTheDistance) {
  LayerTester<float> layer("type: 'L1Loss'", Shapes{{2, 2}, {2, 2}});
  layer.SetBottom({1, 2, 3, 4}).SetBottom({2, 2, 1, 0}, 1).Forward();
  EXPECT_THAT(layer.top_values(), ElementsAre(3.5F));
  layer.Backward();
  EXPECT_THAT(layer.bottom_diff(0), ElementsAre(-0.5F, 0, 0.5F, 0.5F));
  EXPECT_THAT(layer.bottom_diff(1), ElementsAre(0.5F, 0, -0.5F, -0.5F));
}

TEST(L1Loss, HasGradientsOfBoth) {
  LayerTester<double> layer("type: 'L1Loss' loss_weight: 2", Shapes{{3, 2, 2}, {3, 4}});
  EXPECT_LT(GradientError(layer), 1e-7);
}

TEST(L1Loss, RefusesOtherSizes) {
  EXPECT_THAT(ErrorText<ConfigError>([] {
                LayerTester<float>("type: 'L1Loss'", Shapes{{2, 2}, {2, 3}});
              }),
              HasSubstr("the bottoms have different numbers of elements"));
}

}  // namespace
}  // namespace carafe
