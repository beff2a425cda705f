#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

TEST(Filter, KeepsSelectedRows) {
  LayerTester<float> layer("type: 'Filter'", {{3, 2}, {3}, {3, 1, 1}}, {.tops = 2});
  layer.SetBottom({1, 2, 3, 4, 5, 6}, 0).SetBottom({7, 8, 9}, 1).SetBottom({-1, 0, 2}, 2).Forward();
  EXPECT_EQ(layer.top(0).shape(), (Shape{2, 2}));
  EXPECT_THAT(layer.top_values(0), ElementsAre(1, 2, 5, 6));
  EXPECT_THAT(layer.top_values(1), ElementsAre(7, 9));
  layer.SetTopDiff({1, 2, 3, 4}, 0).SetTopDiff({5, 6}, 1).Backward({true, true, false});
  EXPECT_THAT(layer.bottom_diff(0), ElementsAre(1, 2, 0, 0, 3, 4));
  EXPECT_THAT(layer.bottom_diff(1), ElementsAre(5, 0, 6));
}

TEST(Filter, MayKeepNothingAndThenSomethingAgain) {
  LayerTester<float> layer("type: 'Filter'", {{2, 2}, {2}}, {.tops = 1});
  layer.SetBottom({1, 2, 3, 4}).SetBottom({0, 0}, 1).Forward();
  EXPECT_EQ(layer.top().shape(), (Shape{0, 2}));
  layer.Backward({true, false});
  EXPECT_THAT(layer.bottom_diff(), ElementsAre(0, 0, 0, 0));
  layer.SetBottom({0, 1}, 1).Forward();
  EXPECT_THAT(layer.top_values(), ElementsAre(3, 4));
}

TEST(Filter, RefusesWhatDoesNotFit) {
  EXPECT_THROW(LayerTester<float>("type: 'Filter'", {{2, 2}, {2, 2}}), ConfigError);
  EXPECT_THROW(LayerTester<float>("type: 'Filter'", {{3, 2}, {2, 1}}), ConfigError);
  EXPECT_THROW(LayerTester<float>("type: 'Filter'", {{2, 2}, {2, 1}}, {.tops = 2}), ConfigError);
  LayerTester<float> layer("type: 'Filter'", {{2, 2}, {2, 1}});
  EXPECT_THROW(layer.Forward().Backward({true, true}), ConfigError);
}

}  // namespace
}  // namespace carafe
