#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

TEST(Normalize, HasRightGradients) {
  for (const char* param : {"", "across_spatial: false", "channel_shared: false",
                            "across_spatial: false channel_shared: false eps: 0.5"}) {
    for (const Shape& shape : {Shape{2, 3, 2, 2}, Shape{3, 4}, Shape{1, 2, 3}}) {
      LayerTester<double> layer(std::string("type: 'Normalize' norm_param { ") + param + " }",
                                shape);
      EXPECT_EQ(layer.top().shape(), shape);
      EXPECT_LT(GradientError(layer), 1e-7) << param;
    }
  }
}

TEST(Normalize, MakesImagesOrPlacesOfLengthOneTimesTheScale) {
  LayerTester<double> image("type: 'Normalize' norm_param { scale_filler { value: 10 } }",
                            {1, 2, 1, 2});
  EXPECT_EQ(image.param(0).shape(), Shape{});
  EXPECT_THAT(image.SetBottom({1, 1, 1, 1}).Forward().top_values(),
              Pointwise(DoubleNear(1e-9), {5, 5, 5, 5}));
  LayerTester<double> place(
      "type: 'Normalize' norm_param { across_spatial: false channel_shared: false }", {1, 2, 1, 2});
  EXPECT_THAT(place.param_values(0), ElementsAre(1, 1));
  place.SetParam(0, {1, 10}).SetBottom({3, 0, 4, 2}).Forward();
  EXPECT_THAT(place.top_values(), Pointwise(DoubleNear(1e-9), {0.6, 0.0, 8.0, 10.0}));
}

TEST(Normalize, KeepsZeroVectorsFinite) {
  LayerTester<float> layer("type: 'Normalize' norm_param { across_spatial: false }", {1, 2, 2});
  layer.SetBottom({0, 0, 0, 0}).SetTopDiff({0, 0, 0, 0}).Forward().Backward();
  EXPECT_THAT(layer.top_values(), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(layer.bottom_diff(), ElementsAre(0, 0, 0, 0));
}

TEST(Normalize, AddsToTheGradientOfItsScale) {
  LayerTester<double> layer("type: 'Normalize' norm_param { across_spatial: false }", {1, 2, 1});
  layer.SetBottom({3, 4}).SetTopDiff({1, 1}).Forward().Backward();
  EXPECT_THAT(layer.param_diff(0), Pointwise(DoubleNear(1e-9), {1.4}));
  layer.BackwardAgain();
  EXPECT_THAT(layer.param_diff(0), Pointwise(DoubleNear(1e-9), {2.8}));
}

TEST(Normalize, RefusesWhatHasNoChannelsAndANegativeEps) {
  EXPECT_EQ(
      ErrorText<ConfigError>([] { LayerTester<float>("type: 'Normalize'", {3}); }),
      "test.prototxt: error: layer \"test\" (Normalize): Normalize needs a bottom of 2 axes or "
      "more (N, C, ..), this one is 3 (3)\n  fix: reshape the bottom");
  EXPECT_EQ(ErrorText<ConfigError>([] {
              LayerTester<float>("type: 'Normalize' norm_param {\neps: -1 }", {1, 3});
            }),
            "test.prototxt:2:1: error: layer \"test\" (Normalize): eps is -1\n"
            "  fix: use 0 or more");
}

}  // namespace
}  // namespace carafe
