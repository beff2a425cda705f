#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

TEST(Bn, OfSegNetScalesAndShiftsAlone) {
  LayerTester<float> layer("type: 'BN' bn_param { bn_mode: INFERENCE }", {1, 2, 1, 2});
  EXPECT_EQ(layer.num_params(), 2);
  EXPECT_EQ(layer.param(0).shape(), (Shape{1, 2, 1, 1}));
  layer.SetBottom({1, 2, 3, 4}).SetParam(0, {2, 10}).SetParam(1, {1, 0.5F}).Forward();
  EXPECT_THAT(layer.top_values(), ElementsAre(3, 5, 30.5F, 40.5F));
}

TEST(Bn, OfSegNetLearnsByTheBatch) {
  for (const Phase phase : {TRAIN, TEST}) {
    LayerTester<double> layer(
        "type: 'BN' bn_param { scale_filler { value: 2 } shift_filler { value: 1 } }", {2, 1, 1, 2},
        {.phase = phase});
    layer.SetBottom({1, 1, 3, 3}).Forward();
    EXPECT_THAT(layer.top_values(), Pointwise(DoubleNear(1e-6), {-1.0, -1.0, 3.0, 3.0}));
  }
}

TEST(Bn, OfPspNetKeepsRunningStatistics) {
  LayerTester<double> layer("type: 'BN' bn_param { momentum: 0.75 eps: 0 }", {2, 1, 1, 2});
  ASSERT_EQ(layer.num_params(), 4);
  layer.SetBottom({1, 1, 3, 3}).Forward();
  EXPECT_THAT(layer.top_values(), Pointwise(DoubleNear(1e-9), {-1.0, -1.0, 1.0, 1.0}));
  EXPECT_THAT(layer.param_values(2), ElementsAre(0.5));  // a quarter of 2
  // The unbiased variance is 4 / 3, that of the start 1.
  EXPECT_THAT(layer.param_values(3), Pointwise(DoubleNear(1e-9), {0.75 + 1.0 / 3}));
  LayerTester<double> test("type: 'BN' bn_param { eps: 0 }", {1, 1, 1, 2}, {.phase = TEST});
  test.SetBottom({1, 5}).SetParam(0, {3}).SetParam(1, {1}).SetParam(2, {1}).SetParam(3, {4});
  test.Forward();
  EXPECT_THAT(test.top_values(), ElementsAre(1, 7));
}

TEST(Bn, HasGradients) {
  for (const char* settings : {"", "bn_mode: INFERENCE", "eps: 1e-3", "eps: 1e-3 frozen: true"}) {
    SCOPED_TRACE(settings);
    LayerTester<double> layer(std::string("type: 'BN' bn_param { ") + settings + " }",
                              {3, 2, 2, 3});
    GradientOptions options;
    if (layer.num_params() > 2) {
      options.skip_params = {2, 3};
      options.random_params = false;
      layer.SetParam(0, {1.5, -2}).SetParam(3, {2, 0.5});
    }
    EXPECT_LT(GradientError(layer, options), 1e-6);
  }
}

TEST(Bn, MayRunInPlace) {
  LayerTester<double> apart("type: 'BN'", {3, 2, 2, 3}),
      in("type: 'BN'", {3, 2, 2, 3}, {.in_place = true});
  apart.Forward();
  in.Forward();
  EXPECT_EQ(in.top_values(), apart.top_values());
  std::vector<double> dy(36);
  for (size_t i = 0; i < dy.size(); ++i) dy[i] = static_cast<double>(i % 7);
  apart.SetTopDiff(dy).Backward();
  in.SetTopDiff(dy).Backward();
  EXPECT_EQ(in.bottom_diff(), apart.bottom_diff());
}

TEST(Bn, RefusesMixedSettings) {
  EXPECT_THAT(
      ErrorText<ConfigError>([] {
        LayerTester<float>("type: 'BN' bn_param { bn_mode: LEARN momentum: 0.9 }", {1, 2, 1, 2});
      }),
      HasSubstr("settings of SegNet's and of PSPNet's BN are mixed"));
}

}  // namespace
}  // namespace carafe
