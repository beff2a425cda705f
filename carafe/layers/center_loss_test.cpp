#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kText[] = "type: 'CenterLoss' center_loss_param { num_output: 3 }";

TEST(CenterLoss, IsHalfTheMeanSquaredDistanceToTheCentre) {
  LayerTester<double> layer(kText, Shapes{{3, 2}, {3}});
  layer.SetParam(0, {0, 0, 1, 1, 5, 5});
  layer.SetBottom({1, 2, 3, 1, 0, 0}).SetBottom({1, 1, 0}, 1).Forward();
  EXPECT_THAT(layer.top_values(), ElementsAre((1.0 + 4) / 6));
  layer.Backward({true, false});
  EXPECT_THAT(layer.bottom_diff(), ElementsAre(0, 1.0 / 3, 2.0 / 3, 0, 0, 0));
  // Class 1 has two rows: (c - x) summed and divided by 3; class 2 has none.
  EXPECT_THAT(layer.param_diff(0), ElementsAre(0, 0, -2.0 / 3, -1.0 / 3, 0, 0));
}

TEST(CenterLoss, HasTheGradientOfItsFeatures) {
  LayerTester<double> layer(
      "type: 'CenterLoss' loss_weight: 0.5 center_loss_param { num_output: 3 "
      "center_filler { type: 'xavier' } }",
      Shapes{{4, 3}, {4}});
  layer.SetBottom({2, 0, 1, 2}, 1);
  EXPECT_LT(GradientError(layer, {.bottoms = {0}, .skip_params = {0}}), 1e-7);
}

TEST(CenterLoss, RefusesOtherLabels) {
  LayerTester<float> layer(kText, Shapes{{2, 2}, {2}});
  layer.SetBottom({0, 3}, 1);
  EXPECT_THAT(ErrorText<DataError>([&] { layer.Forward(); }),
              HasSubstr("label 3 is not one of the 3 classes 0 to 2"));
  EXPECT_THAT(ErrorText<ConfigError>([] {
                LayerTester<float>("type: 'CenterLoss'", Shapes{{2, 2}, {2}});
              }),
              HasSubstr("num_output is 0 or missing"));
}

}  // namespace
}  // namespace carafe
