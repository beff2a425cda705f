#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kText[] =
    "type: 'PSROIPooling' psroi_pooling_param { spatial_scale: 0.5 output_dim: 1 group_size: 2 }";

TEST(PsroiPooling, TakesTheMeanOfEachBinFromItsOwnChannel) {
  LayerTester<float> layer(kText, Shapes{{1, 4, 2, 2}, {1, 5}});
  layer.SetBottom({1, 2, 3, 4, 10, 20, 30, 40, 5, 6, 7, 8, 50, 60, 70, 80});
  // Pixels 0 to 3 are both rows and columns: bin (i, j) is feature (i, j) of channel 2 i + j.
  layer.SetBottom({0, 0, 0, 3, 3}, 1).Forward();
  EXPECT_EQ(layer.top().shape(), (Shape{1, 1, 2, 2}));
  EXPECT_THAT(layer.top_values(), ElementsAre(1, 20, 7, 80));
}

TEST(PsroiPooling, HasTheGradientOfTheMeans) {
  LayerTester<double> layer(
      "type: 'PSROIPooling' psroi_pooling_param { spatial_scale: 0.5 output_dim: 2 group_size: 3 }",
      Shapes{{2, 18, 5, 6}, {3, 5}});
  layer.SetBottom({0, 0, 0, 9, 9, 1, 2, 3, 7, 8, 0, 4, 1, 11, 30}, 1);
  EXPECT_EQ(layer.top().shape(), (Shape{3, 2, 3, 3}));
  EXPECT_LT(GradientError(layer, {.bottoms = {0}}), 1e-9);
}

TEST(PsroiPooling, RefusesOtherNumbersOfChannels) {
  EXPECT_THAT(ErrorText<ConfigError>([] {
                LayerTester<float>(kText, Shapes{{1, 5, 2, 2}, {1, 5}});
              }),
              HasSubstr("the features have 5 channels, but output_dim 1 x group_size 2 x 2 is 4"));
}

}  // namespace
}  // namespace carafe
