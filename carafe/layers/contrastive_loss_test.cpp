#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

TEST(ContrastiveLoss, DrawsPairsTogetherOrApart) {
  LayerTester<double> layer("type: 'ContrastiveLoss' contrastive_loss_param { margin: 4 }",
                            {{2, 2}, {2, 2}, {2}});
  layer.SetBottom({3, 4, 0, 3}, 0).SetBottom({0, 0, 0, 0}, 1).SetBottom({1, 0}, 2).Forward();
  EXPECT_THAT(layer.top_values(), ElementsAre((25 + 1) / 4.0));
}

TEST(ContrastiveLoss, HasRightGradientsInBothVersions) {
  for (const char* param : {"margin: 5", "margin: 9 legacy_version: true"}) {
    LayerTester<double> layer(
        std::string("type: 'ContrastiveLoss' contrastive_loss_param {") + param + "}",
        {{4, 3}, {4, 3}, {4}});
    layer.SetBottom({1, 0, 0, 1}, 2);
    // The original divides by the distance plus 1e-4.
    EXPECT_LT(GradientError(layer), 2e-4) << param;
  }
  EXPECT_THROW(LayerTester<double>("type: 'ContrastiveLoss'", {{2, 2, 2}, {2, 2, 2}, {2}}),
               ConfigError);
  EXPECT_THROW(LayerTester<double>("type: 'ContrastiveLoss'", {{2, 2}, {2, 2}, {3}}), ConfigError);
}

}  // namespace
}  // namespace carafe
