#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

TEST(Axpy, ScalesChannelsAndAdds) {
  LayerTester<double> layer("type: 'Axpy'", {{1, 2, 1, 1}, {1, 2, 1, 2}, {1, 2, 1, 2}});
  layer.SetBottom({2, 3}).SetBottom({1, 2, 3, 4}, 1).SetBottom({10, 20, 30, 40}, 2).Forward();
  EXPECT_THAT(layer.top_values(), ElementsAre(12, 24, 39, 52));
}

TEST(Axpy, HasRightGradients) {
  for (const Shape& factors : {Shape{2, 3}, Shape{2, 3, 1, 1}}) {
    LayerTester<double> layer("type: 'Axpy'", {factors, {2, 3, 2, 2}, {2, 3, 2, 2}});
    EXPECT_LT(GradientError(layer), 1e-8);
  }
}

TEST(Axpy, RefusesBottomsThatDoNotFit) {
  EXPECT_EQ(ErrorText<ConfigError>([] {
              LayerTester<float>("type: 'Axpy'", {{1, 3}, {1, 2, 2, 2}, {1, 2, 2, 2}});
            }),
            "test.prototxt: error: layer \"test\" (Axpy): the factors are 1 3 (3), but bottom 1 is "
            "1 2 2 2 (8)\n  fix: give one factor per image and channel: (N, C) or (N, C, 1, 1)");
  EXPECT_EQ(ErrorText<ConfigError>([] {
              LayerTester<float>("type: 'Axpy'", {{1, 2}, {1, 2, 2, 2}, {1, 2, 2, 1}});
            }),
            "test.prototxt: error: layer \"test\" (Axpy): bottoms 1 and 2 have different shapes: "
            "1 2 2 2 (8) and 1 2 2 1 (4)\n  fix: give both the same shape");
  EXPECT_THROW(LayerTester<float>("type: 'Axpy'", {{1, 2, 2, 2}, {1, 2, 2, 2}, {1, 2, 2, 2}}),
               ConfigError);
}

}  // namespace
}  // namespace carafe
