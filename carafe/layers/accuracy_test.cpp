#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

std::string Text(const std::string& param) {
  return "type: \"Accuracy\" accuracy_param { " + param + " }";
}

TEST(Accuracy, CountsLabelsWithTheHighestScore) {
  LayerTester<float> layer(Text(""), {{4, 3}, {4}});
  layer.SetBottom({3, 2, 1, 3, 2, 1, 1, 2, 3, 0, 5, 2}).SetBottom({0, 1, 2, 1}, 1).Forward();
  EXPECT_THAT(layer.top_values(), ElementsAre(0.75));
}

TEST(Accuracy, LosesTies) {
  LayerTester<float> layer(Text(""), {{2, 2}, {2}});
  layer.SetBottom({1, 1, 2, 1}).SetBottom({0, 0}, 1).Forward();
  EXPECT_THAT(layer.top_values(), ElementsAre(0.5));
}

TEST(Accuracy, LooksAmongTheTopK) {
  LayerTester<float> layer(Text("top_k: 2"), {{3, 3}, {3}});
  layer.SetBottom({3, 2, 1, 3, 2, 1, 2, 2, 2}).SetBottom({1, 2, 0}, 1).Forward();
  EXPECT_THAT(layer.top_values(), ElementsAre(1.f / 3));
}

TEST(Accuracy, GivesTheShareOfEachClassAndLeavesIgnoredLabelsOut) {
  LayerTester<float> layer(Text("ignore_label: 2"), {{4, 4}, {4}}, {.tops = 2});
  layer.SetBottom({4, 3, 2, 1, 1, 2, 0, 0, 9, 0, 0, 0, 0, 0, 1, 0});
  layer.SetBottom({0, 1, 1, 2}, 1).Forward();
  EXPECT_THAT(layer.top_values(0), ElementsAre(2.f / 3));
  EXPECT_THAT(layer.top_values(1), ElementsAre(1, 0.5, 0, 0));
}

TEST(Accuracy, TakesTheClassesFromItsAxis) {
  LayerTester<float> layer(Text("axis: -1"), {{1, 2, 2}, {1, 2}});
  layer.SetBottom({1, 0, 1, 0}).SetBottom({0, 1}, 1).Forward();
  EXPECT_THAT(layer.top_values(), ElementsAre(0.5));
}

TEST(Accuracy, IsZeroWhenNothingCounts) {
  LayerTester<float> layer(Text("ignore_label: 0"), {{1, 2}, {1}});
  EXPECT_THAT(layer.SetBottom({0}, 1).Forward().top_values(), ElementsAre(0));
}

TEST(Accuracy, RefusesMoreThanThereAreClassesAndBadLabels) {
  EXPECT_EQ(ErrorText<ConfigError>([] {
              LayerTester<float>(Text("\n top_k: 4"), {{1, 3}, {1}});
            }),
            "test.prototxt:2:2: error: layer \"test\" (Accuracy): top_k is 4, but there are 3 "
            "classes\n  fix: use a top_k of at most the number of classes");
  LayerTester<float> layer(Text(""), {{1, 2}, {1}});
  EXPECT_THROW(layer.SetBottom({2}, 1).Forward(), DataError);
}

TEST(Accuracy, HasNoGradient) {
  LayerTester<float> layer(Text(""), {{1, 2}, {1}});
  layer.SetBottom({1}, 1).Forward();
  EXPECT_NO_THROW(layer.Backward({false, false}));
  EXPECT_EQ(ErrorText<ConfigError>([&] {
              layer.Backward({true, false});
            }),
            "test.prototxt: error: layer \"test\" (Accuracy): Accuracy has no gradient\n"
            "  fix: leave its loss_weight away and train on a loss layer");
}

}  // namespace
}  // namespace carafe
