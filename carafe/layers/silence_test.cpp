#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

TEST(Silence, GivesZeroGradients) {
  LayerTester<float> layer("type: 'Silence'", Shapes{{2}, {1}});
  EXPECT_EQ(layer.num_tops(), 0);
  layer.bottom(0).SetDiff(layer.run().stream, std::vector<float>{1, 2});
  layer.bottom(1).SetDiff(layer.run().stream, std::vector<float>{3});
  layer.Forward().Backward({true, false});
  EXPECT_THAT(layer.bottom_diff(0), ::testing::ElementsAre(0, 0));
  EXPECT_THAT(layer.bottom_diff(1), ::testing::ElementsAre(3));
}

}  // namespace
}  // namespace carafe
