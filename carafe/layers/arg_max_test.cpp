#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

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

}  // namespace
}  // namespace carafe
