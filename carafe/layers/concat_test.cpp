#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

TEST(Concat, JoinsAlongAxisOne) {
  LayerTester<float> layer("type: 'Concat'", {{2, 1}, {2, 2}});
  layer.SetBottom({1, 4}, 0).SetBottom({2, 3, 5, 6}, 1).Forward();
  EXPECT_EQ(layer.top().shape(), (Shape{2, 3}));
  EXPECT_THAT(layer.top_values(), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(Concat, HasRightGradientsOnEveryAxis) {
  for (const char* axis : {"axis: 0", "axis: 1", "axis: -1", "concat_dim: 1"}) {
    const std::string text = std::string("type: 'Concat' concat_param {") + axis + "}";
    LayerTester<double> layer(text, {{2, 3, 2}, {2, 3, 2}, {2, 3, 2}});
    EXPECT_LT(GradientError(layer), 1e-9) << axis;
  }
}

TEST(Concat, HandsASingleBottomThrough) {
  LayerTester<double> layer("type: 'Concat'", {2, 3});
  layer.Forward();
  EXPECT_TRUE(layer.top().SharesDataWith(layer.bottom()));
  EXPECT_LT(GradientError(layer), 1e-9);
}

TEST(Concat, LeavesAloneTheBottomsThatWantNoGradient) {
  LayerTester<float> layer("type: 'Concat'", {{1, 1}, {1, 1}});
  layer.SetTopDiff({5, 6}).Forward().Backward({false, true});
  EXPECT_THAT(layer.bottom_diff(0), ElementsAre(0));
  EXPECT_THAT(layer.bottom_diff(1), ElementsAre(6));
}

TEST(Concat, RefusesShapesThatDoNotFitAndTwoAxes) {
  EXPECT_EQ(
      ErrorText<ConfigError>([] {
        LayerTester<float>("type: 'Concat'", {{2, 1}, {3, 1}});
      }),
      "test.prototxt: error: layer \"test\" (Concat): the bottoms differ in more than axis 1: "
      "2 1 (2) and 3 1 (3)\n  fix: make all other axes equal");
  EXPECT_THROW(LayerTester<float>("type: 'Concat'", {{2, 1}, {2, 1, 1}}), ConfigError);
  EXPECT_THROW(LayerTester<float>("type: 'Concat' concat_param { axis: 1 concat_dim: 1 }", {2, 1}),
               ConfigError);
}

}  // namespace
}  // namespace carafe
