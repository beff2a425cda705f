// Reduction, ArgMax and SPP.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

TEST(Reduction, AddsUpWhatFollowsItsAxis) {
  const auto run = [](const std::string& param) {
    LayerTester<float> layer("type: 'Reduction' reduction_param {" + param + "}", {2, 2});
    return layer.SetBottom({1, -2, 3, -4}).Forward().top_values();
  };
  EXPECT_THAT(run(""), ElementsAre(-2));
  EXPECT_THAT(run("axis: 1"), ElementsAre(-1, -1));
  EXPECT_THAT(run("axis: -1 operation: ASUM coeff: 2"), ElementsAre(6, 14));
  EXPECT_THAT(run("axis: 1 operation: SUMSQ"), ElementsAre(5, 25));
  EXPECT_THAT(run("operation: MEAN coeff: 2"), ElementsAre(-1));
}

TEST(Reduction, HasRightGradients) {
  for (const char* operation : {"SUM", "ASUM", "SUMSQ", "MEAN"}) {
    for (const char* axis : {"0", "1", "-1"}) {
      LayerTester<double> layer(std::string("type: 'Reduction' reduction_param { coeff: -0.7 ") +
                                    "operation: " + operation + " axis: " + axis + "}",
                                {2, 3, 2});
      EXPECT_LT(GradientError(layer, {.kinks = {0}}), 1e-8) << operation << axis;
    }
  }
}

TEST(ArgMax, GivesPositionsOfRowsOrAlongAnAxis) {
  const auto run = [](const std::string& param, const Shape& shape, const Shape& top) {
    LayerTester<float> layer("type: 'ArgMax' argmax_param {" + param + "}", shape);
    EXPECT_EQ(layer.top().shape(), top) << param;
    return layer.SetBottom({3, 1, 4, 1, 5, 9}).Forward().top_values();
  };
  EXPECT_THAT(run("", {2, 3}, {2, 1, 1}), ElementsAre(2, 2));
  EXPECT_THAT(run("top_k: 2", {2, 3}, {2, 1, 2}), ElementsAre(2, 0, 2, 1));
  EXPECT_THAT(run("top_k: 2 out_max_val: true", {2, 3}, {2, 2, 2}),
              ElementsAre(2, 0, 4, 3, 2, 1, 9, 5));
  EXPECT_THAT(run("axis: 0", {2, 3}, {1, 3}), ElementsAre(0, 1, 1));
  EXPECT_THAT(run("axis: -1 out_max_val: true", {2, 3}, {2, 1}), ElementsAre(4, 9));
  EXPECT_THAT(run("", {1, 3, 2, 1}, {1, 1, 1, 1}), ElementsAre(5));
}

TEST(ArgMax, PutsTheLargerIndexOfEqualsFirst) {
  LayerTester<float> layer("type: 'ArgMax' argmax_param { top_k: 3 }", {1, 4});
  EXPECT_THAT(layer.SetBottom({2, 7, 2, 7}).Forward().top_values(), ElementsAre(3, 1, 2));
}

TEST(ArgMax, RefusesTooLargeATopKAndGradients) {
  EXPECT_EQ(
      ErrorText<ConfigError>([] {
        LayerTester<float>("type: 'ArgMax' argmax_param {\n top_k: 4 }", {2, 3});
      }),
      "test.prototxt:2:2: error: layer \"test\" (ArgMax): top_k is 4, but there are 3 elements "
      "to choose from\n  fix: use a smaller top_k");
  LayerTester<float> layer("type: 'ArgMax'", {2, 3});
  EXPECT_THROW(layer.Forward().Backward({true}), ConfigError);
}

TEST(SPP, PoolsIntoAPyramidOfBins) {
  LayerTester<float> three("type: 'SPP' spp_param { pyramid_height: 3 }", {1, 3, 9, 9});
  EXPECT_EQ(three.top().shape(), (Shape{1, 63}));
  LayerTester<float> one("type: 'SPP' spp_param { pyramid_height: 1 }", {1, 2, 2, 2});
  EXPECT_EQ(one.top().shape(), (Shape{1, 2, 1, 1}));
  one.SetBottom({1, 2, 3, 4, 5, 9, 7, 8}).Forward();
  EXPECT_THAT(one.top_values(), ElementsAre(4, 9));
  LayerTester<float> two("type: 'SPP' spp_param { pyramid_height: 2 }", {1, 1, 2, 2});
  EXPECT_THAT(two.SetBottom({1, 2, 3, 4}).Forward().top_values(), ElementsAre(4, 1, 2, 3, 4));
}

TEST(SPP, HasRightGradients) {
  for (const char* param :
       {"pyramid_height: 3", "pyramid_height: 2 pool: AVE", "pyramid_height: 1"}) {
    LayerTester<double> layer(std::string("type: 'SPP' spp_param {") + param + "}", {2, 2, 6, 7});
    EXPECT_LT(GradientError(layer), 1e-8) << param;
  }
}

TEST(SPP, RefusesImagesThatAreTooSmall) {
  EXPECT_EQ(ErrorText<ConfigError>([] {
              LayerTester<float>("type: 'SPP' spp_param {\n pyramid_height: 3 }", {1, 1, 2, 8});
            }),
            "test.prototxt:2:2: error: layer \"test\" (SPP): axis 2 of the bottom (2) is too small "
            "for 4 bins\n  fix: use fewer levels or larger images");
  EXPECT_THROW(LayerTester<float>("type: 'SPP' spp_param { pyramid_height: 1 }", {1, 1, 1}),
               ConfigError);
}

}  // namespace
}  // namespace carafe
