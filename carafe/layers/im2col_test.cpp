#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

TEST(Im2colLayer, FormsColumnsAndHasRightGradients) {
  const std::string text = "type: 'Im2col' convolution_param { kernel_size: 2 pad: 1 stride: 2 }";
  LayerTester<double> layer(text, {2, 2, 3, 4});
  EXPECT_EQ(layer.top().shape(), (Shape{2, 8, 2, 3}));
  EXPECT_LT(GradientError(layer), 1e-9);
  LayerTester<float> small("type: 'Im2col' convolution_param { kernel_size: 2 }", {1, 1, 2, 3});
  small.SetBottom({1, 2, 3, 4, 5, 6}).Forward();
  EXPECT_THAT(small.top_values(), ::testing::ElementsAre(1, 2, 2, 3, 4, 5, 5, 6));
  EXPECT_THROW(LayerTester<float>(text, {2, 2}), ConfigError);
}

}  // namespace
}  // namespace carafe
