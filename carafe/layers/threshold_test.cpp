#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

TEST(Threshold, IsOneStrictlyAboveAndHasNoGradient) {
  LayerTester<float> layer("name: 't' type: 'Threshold' threshold_param { threshold: 1 }", {3});
  layer.SetBottom({0, 1, 2}).SetTopDiff({1, 1, 1}).Forward();
  EXPECT_THAT(layer.top_values(), ::testing::ElementsAre(0, 0, 1));
  EXPECT_NO_THROW(layer.Backward({false}));
  EXPECT_EQ(ErrorText<ConfigError>([&] { layer.Backward({true}); }),
            "test.prototxt: error: layer \"t\" (Threshold): Threshold has no gradient\n"
            "  fix: keep it out of the path from the loss to the parameters");
}

}  // namespace
}  // namespace carafe
