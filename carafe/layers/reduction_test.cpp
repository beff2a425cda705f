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

}  // namespace
}  // namespace carafe
