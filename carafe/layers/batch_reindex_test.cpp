#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

TEST(BatchReindex, PicksRowsAndAddsTheirGradients) {
  LayerTester<float> layer("type: 'BatchReindex'", {{3, 2}, {4}});
  EXPECT_EQ(layer.top().shape(), (Shape{4, 2}));
  layer.SetBottom({1, 2, 3, 4, 5, 6}).SetBottom({2, 0, 2, 2}, 1);
  layer.SetTopDiff({1, 2, 3, 4, 5, 6, 7, 8}).Forward().Backward({true, false});
  EXPECT_THAT(layer.top_values(), ElementsAre(5, 6, 1, 2, 5, 6, 5, 6));
  EXPECT_THAT(layer.bottom_diff(), ElementsAre(3, 4, 0, 0, 13, 16));
}

TEST(BatchReindex, HasRightGradientsForWideRows) {
  LayerTester<double> layer("type: 'BatchReindex'", {{3, 5, 30}, {4}});
  layer.SetBottom({2, 0, 2, 1}, 1);
  EXPECT_LT(GradientError(layer, {.bottoms = {0}}), 1e-8);
}

TEST(BatchReindex, ChecksItsIndices) {
  LayerTester<float> layer("name: 'r' type: 'BatchReindex'", {{3, 2}, {2}});
  EXPECT_EQ(ErrorText<DataError>([&] {
              layer.SetBottom({0, 3}, 1).Forward();
            }),
            "layer \"r\" (BatchReindex): record 1: error: index 3 is not one of the 3 rows\n"
            "  fix: give indices from 0 to the number of rows less 1");
  layer.SetBottom({0, 2}, 1).Forward();
  EXPECT_THROW(layer.Backward({true, true}), ConfigError);
  EXPECT_THROW(LayerTester<float>("type: 'BatchReindex'", {{3, 2}, {2, 1}}), ConfigError);
}

}  // namespace
}  // namespace carafe
