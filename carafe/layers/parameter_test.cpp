#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

TEST(Parameter, ShowsItsBlobAndCollectsItsGradient) {
  LayerTester<float> layer("type: 'Parameter' parameter_param { shape { dim: 1 dim: 2 } }",
                           Shapes{});
  EXPECT_EQ(layer.param(0).shape(), (Shape{1, 2}));
  layer.Forward();
  EXPECT_THAT(layer.top_values(), ElementsAre(0, 0));
  layer.SetParam(0, {3, 4}).SetTopDiff({1, 2}).Forward().Backward().BackwardAgain();
  EXPECT_THAT(layer.top_values(), ElementsAre(3, 4));
  EXPECT_THAT(layer.param_diff(0), ElementsAre(2, 4));
}

}  // namespace
}  // namespace carafe
