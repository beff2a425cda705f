#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

TEST(MVN, NormalisesPlanesOrImages) {
  LayerTester<double> planes("type: 'MVN'", {1, 2, 2});
  planes.SetBottom({1, 3, 10, 30}).Forward();
  EXPECT_EQ(planes.top().shape(), (Shape{1, 2, 2, 1}));
  EXPECT_THAT(planes.top_values(), Pointwise(DoubleNear(1e-7), {-1, 1, -1, 1}));
  LayerTester<double> images(
      "type: 'MVN' mvn_param { across_channels: true normalize_variance: "
      "false }",
      {1, 2, 2});
  images.SetBottom({1, 3, 10, 30}).Forward();
  EXPECT_THAT(images.top_values(), ElementsAre(-10, -8, -1, 19));
}

TEST(MVN, HasRightGradients) {
  for (const char* param : {"", "across_channels: true", "normalize_variance: false",
                            "across_channels: true normalize_variance: false"}) {
    LayerTester<double> layer(std::string("type: 'MVN' mvn_param {") + param + "}", {2, 3, 2, 2});
    EXPECT_LT(GradientError(layer), 1e-6) << param;
  }
  EXPECT_THROW(LayerTester<float>("type: 'MVN'", {1, 1, 1, 1, 1}), ConfigError);
}

}  // namespace
}  // namespace carafe
