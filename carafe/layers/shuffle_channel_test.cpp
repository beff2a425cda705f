#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

TEST(ShuffleChannel, KeepsTheShapeAndHasRightGradients) {
  const std::pair<const char*, Shape> cases[] = {
      {"group: 3", {2, 6, 2, 2}}, {"group: 2", {2, 6}}, {"", {1, 3, 2}}};
  for (const auto& [param, shape] : cases) {
    LayerTester<double> layer(
        std::string("type: 'ShuffleChannel' shuffle_channel_param {") + param + "}", shape);
    EXPECT_EQ(layer.top().shape(), shape);
    EXPECT_LT(GradientError(layer), 1e-9) << param;
  }
}

TEST(ShuffleChannel, TakesOneChannelOfEachGroupInTurn) {
  LayerTester<float> layer("type: 'ShuffleChannel' shuffle_channel_param { group: 2 }", {1, 6, 1});
  EXPECT_THAT(layer.SetBottom({0, 1, 2, 3, 4, 5}).Forward().top_values(),
              ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST(ShuffleChannel, RefusesGroupsThatDoNotDivideTheChannels) {
  EXPECT_EQ(ErrorText<ConfigError>([] {
              LayerTester<float>("type: 'ShuffleChannel' shuffle_channel_param {\ngroup: 4 }",
                                 {1, 6, 2, 2});
            }),
            "test.prototxt:2:1: error: layer \"test\" (ShuffleChannel): the bottom's 6 channels "
            "cannot be divided into 4 groups\n"
            "  fix: use a group that divides the number of channels");
  EXPECT_THROW(
      LayerTester<float>("type: 'ShuffleChannel' shuffle_channel_param { group: 0 }", {1, 6}),
      ConfigError);
  EXPECT_THROW(LayerTester<float>("type: 'ShuffleChannel'", {6}), ConfigError);
}

}  // namespace
}  // namespace carafe
