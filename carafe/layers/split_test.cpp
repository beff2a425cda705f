#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

TEST(Split, SharesItsDataAndAddsTheGradients) {
  for (const int tops : {1, 2, 3, 5}) {
    LayerTester<double> layer("type: \"Split\"", {2, 3}, {.tops = tops});
    layer.Forward();
    for (int i = 0; i < tops; ++i) {
      EXPECT_EQ(layer.top_values(i), layer.bottom_values());
      EXPECT_TRUE(layer.top(i).SharesDataWith(layer.bottom()));
    }
    EXPECT_LT(GradientError(layer), 1e-9);
  }
}

}  // namespace
}  // namespace carafe
