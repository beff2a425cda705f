#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

TEST(PReLU, HasASlopePerChannelThatStartsAtAQuarter) {
  LayerTester<float> layer("type: 'PReLU'", {1, 2, 2});
  EXPECT_THAT(layer.param_values(0), ElementsAre(0.25, 0.25));
  layer.SetParam(0, {0.5, 2}).SetBottom({-2, 3, -2, 0}).SetTopDiff({1, 1, 1, 1});
  layer.Forward().Backward();
  EXPECT_THAT(layer.top_values(), ElementsAre(-1, 3, -4, 0));
  EXPECT_THAT(layer.bottom_diff(), ElementsAre(0.5, 1, 2, 2));
  EXPECT_THAT(layer.param_diff(0), ElementsAre(-2, -2));
}

TEST(PReLU, HasRightGradientsAlsoSharedAndInPlace) {
  for (const bool in_place : {false, true}) {
    for (const char* param : {"", "prelu_param { channel_shared: true }"}) {
      for (const Shape& shape : {Shape{2, 3, 4}, Shape{3, 2}}) {
        LayerTester<double> layer(std::string("type: 'PReLU' ") + param, shape,
                                  {.in_place = in_place});
        EXPECT_EQ(layer.param(0).shape(), param[0] ? Shape{} : Shape{shape[1]});
        EXPECT_LT(GradientError(layer, {.kinks = {0}}), 1e-9) << param << in_place;
      }
    }
  }
}

TEST(PReLU, NeedsAChannelAxis) {
  EXPECT_THROW(LayerTester<float>("type: 'PReLU'", {3}), ConfigError);
}

}  // namespace
}  // namespace carafe
