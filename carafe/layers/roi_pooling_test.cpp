#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kText[] =
    "type: 'ROIPooling' roi_pooling_param { pooled_h: 2 pooled_w: 2 spatial_scale: 0.5 }";

TEST(RoiPooling, TakesTheMaximumOfEachBin) {
  LayerTester<float> layer(kText, Shapes{{1, 1, 4, 4}, {2, 5}});
  layer.SetBottom({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
  // All of the features; and columns 1 to 3 of row 1, where bins of 1.5 columns overlap.
  layer.SetBottom({0, 0, 0, 6, 6, 0, 2, 2, 6, 2}, 1).Forward();
  EXPECT_EQ(layer.top().shape(), (Shape{2, 1, 2, 2}));
  EXPECT_THAT(layer.top_values(), ElementsAre(5, 7, 13, 15, 6, 7, 6, 7));
}

TEST(RoiPooling, OfWhatLiesOutsideIsZero) {
  LayerTester<float> layer(kText, Shapes{{1, 1, 2, 2}, {1, 5}});
  layer.SetBottom({-1, -2, -3, -4}).SetBottom({0, 10, 10, 20, 20}, 1).Forward();
  EXPECT_THAT(layer.top_values(), ElementsAre(0, 0, 0, 0));
}

TEST(RoiPooling, HasTheGradientOfTheMaxima) {
  LayerTester<double> layer(kText, Shapes{{2, 3, 5, 6}, {3, 5}});
  layer.SetBottom({0, 0, 0, 9, 9, 1, 2, 3, 7, 8, 0, 4, 1, 11, 9}, 1);
  EXPECT_LT(GradientError(layer, {.bottoms = {0}}), 1e-7);
}

TEST(RoiPooling, RefusesWhatCannotBe) {
  EXPECT_THAT(ErrorText<ConfigError>([] {
                LayerTester<float>("type: 'ROIPooling'", Shapes{{1, 1, 2, 2}, {1, 5}});
              }),
              HasSubstr("pooled_h or pooled_w is 0 or missing"));
  EXPECT_THAT(ErrorText<ConfigError>([] {
                LayerTester<float>(kText, Shapes{{1, 1, 2, 2}, {1, 4}});
              }),
              HasSubstr("the regions have 5 numbers each"));
  LayerTester<float> layer(kText, Shapes{{1, 1, 2, 2}, {1, 5}});
  layer.SetBottom({1, 0, 0, 1, 1}, 1);
  EXPECT_THAT(ErrorText<DataError>([&] { layer.Forward(); }),
              HasSubstr("region 0 is of image 1, and the batch has 1"));
}

}  // namespace
}  // namespace carafe
