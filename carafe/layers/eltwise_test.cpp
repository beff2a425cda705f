#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

std::string Text(const std::string& param) {
  return "type: 'Eltwise' eltwise_param {" + param + "}";
}
const Shapes kThree = {{2, 3}, {2, 3}, {2, 3}};

TEST(Eltwise, AddsMultipliesAndTakesTheMaximum) {
  const auto run = [](const std::string& param) {
    LayerTester<float> layer(Text(param), Shapes{{3}, {3}, {3}});
    layer.SetBottom({1, 2, 3}, 0).SetBottom({4, 0, -1}, 1).SetBottom({2, 2, 5}, 2).Forward();
    return layer.top_values();
  };
  EXPECT_THAT(run(""), ElementsAre(7, 4, 7));
  EXPECT_THAT(run("coeff: 1 coeff: -1 coeff: 0.5"), ElementsAre(-2, 3, 6.5));
  EXPECT_THAT(run("operation: PROD"), ElementsAre(8, 0, -15));
  EXPECT_THAT(run("operation: MAX"), ElementsAre(4, 2, 5));
}

TEST(Eltwise, HasRightGradients) {
  for (const char* param : {"", "coeff: 1 coeff: -2 coeff: 0.5", "operation: PROD",
                            "operation: PROD stable_prod_grad: false", "operation: MAX"}) {
    LayerTester<double> layer(Text(param), kThree);
    EXPECT_LT(GradientError(layer), 1e-7) << param;
  }
}

TEST(Eltwise, TakesTheMaximumInPlace) {
  LayerTester<double> layer(Text("operation: MAX"), kThree, {.in_place = true});
  EXPECT_LT(GradientError(layer), 1e-8);
}

TEST(Eltwise, LeavesOutTheBottomThatASumInPlaceOverwritesAsCaffeDoes) {
  LayerTester<float> layer(Text("coeff: 2 coeff: 3"), Shapes{{2}, {2}}, {.in_place = true});
  layer.SetBottom({1, 2}, 0).SetBottom({10, 20}, 1).SetTopDiff({1, 2}).Forward();
  EXPECT_THAT(layer.top_values(), ElementsAre(30, 60));
  layer.Backward();
  EXPECT_THAT(layer.bottom_diff(0), ElementsAre(2, 4));
  EXPECT_THAT(layer.bottom_diff(1), ElementsAre(3, 6));
}

TEST(Eltwise, GivesTheGradientOfATieToOneBottom) {
  LayerTester<float> layer(Text("operation: MAX"), Shapes{{1}, {1}, {1}});
  layer.SetBottom({1}, 0).SetBottom({1}, 1).SetBottom({1}, 2).SetTopDiff({5}).Forward().Backward();
  EXPECT_THAT(layer.bottom_diff(0), ElementsAre(0));
  EXPECT_THAT(layer.bottom_diff(1), ElementsAre(5));
  EXPECT_THAT(layer.bottom_diff(2), ElementsAre(0));
}

TEST(Eltwise, KeepsTheGradientOfProductsWithZeroFactors) {
  LayerTester<float> layer(Text("operation: PROD"), Shapes{{2}, {2}});
  layer.SetBottom({0, 0}, 0).SetBottom({0, 3}, 1).SetTopDiff({1, 2}).Forward().Backward();
  EXPECT_THAT(layer.bottom_diff(0), ElementsAre(0, 6));
  EXPECT_THAT(layer.bottom_diff(1), ElementsAre(0, 0));
}

TEST(Eltwise, RefusesWhatDoesNotFit) {
  EXPECT_EQ(
      ErrorText<ConfigError>([] {
        LayerTester<float>(Text(""), {{2, 3}, {3, 2}});
      }),
      "test.prototxt: error: layer \"test\" (Eltwise): the bottoms have different shapes: 2 3 "
      "(6) and 3 2 (6)\n  fix: give bottoms of one shape");
  EXPECT_EQ(ErrorText<ConfigError>([] { LayerTester<float>(Text("\n coeff: 1"), kThree); }),
            "test.prototxt:2:2: error: layer \"test\" (Eltwise): 1 coefficients are given for 3 "
            "bottoms\n  fix: give one per bottom, or none");
  EXPECT_EQ(ErrorText<ConfigError>([] {
              LayerTester<float>(Text("operation: PROD\n coeff: 1 coeff: 1 coeff: 1"), kThree);
            }),
            "test.prototxt:2:2: error: layer \"test\" (Eltwise): only SUM takes coefficients\n"
            "  fix: leave coeff away, or scale the bottoms by a Power or Scale layer");
  EXPECT_THROW(LayerTester<float>(Text("operation: PROD"), kThree, {.in_place = true}),
               ConfigError);
}

}  // namespace
}  // namespace carafe
