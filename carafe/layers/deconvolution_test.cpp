#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

std::string Text(const std::string& param) {
  return "type: \"Deconvolution\" convolution_param { " + param + " }";
}

struct Case {
  const char* name;
  const char* param;
  Shape bottom, top;
};
const Case kCases[] = {
    {"Plain", "num_output: 2 kernel_size: 3", {2, 3, 2, 3}, {2, 2, 4, 5}},
    {"StridedAndPadded",
     "num_output: 1 kernel_size: 3 stride: 2 pad: 1",
     {1, 2, 3, 2},
     {1, 1, 5, 3}},
    {"Grouped", "num_output: 4 kernel_size: 2 group: 2", {1, 2, 2, 2}, {1, 4, 3, 3}},
    {"Dilated", "num_output: 2 kernel_size: 2 dilation: 2", {1, 2, 2, 2}, {1, 2, 4, 4}},
    {"WithoutBias", "num_output: 2 kernel_size: 2 bias_term: false", {1, 1, 2, 2}, {1, 2, 3, 3}},
    {"OneByOne", "num_output: 3 kernel_size: 1", {2, 2, 2, 2}, {2, 3, 2, 2}},
    {"ThreeSpatialAxes", "num_output: 2 kernel_size: 2", {1, 2, 2, 1, 2}, {1, 2, 3, 2, 3}},
};

class DeconvolutionTest : public ::testing::TestWithParam<Case> {};
TEST_P(DeconvolutionTest, InfersTopShapeAndGradients) {
  LayerTester<double> layer(Text(GetParam().param), GetParam().bottom);
  EXPECT_EQ(layer.top().shape(), GetParam().top);
  EXPECT_LT(GradientError(layer), 1e-8);
}
INSTANTIATE_TEST_SUITE_P(Layers, DeconvolutionTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(Deconvolution, AddsScaledFilters) {
  LayerTester<float> layer(Text("num_output: 1 kernel_size: 2"), {1, 1, 1, 2});
  layer.SetBottom({1, 10}).SetParam(0, {1, 2, 3, 4}).SetParam(1, {0.5}).Forward();
  EXPECT_THAT(layer.top_values(), ::testing::ElementsAre(1.5, 12.5, 20.5, 3.5, 34.5, 40.5));
}

TEST(Deconvolution, UpsamplesWithABilinearFiller) {
  LayerTester<float> layer(
      Text("num_output: 1 kernel_size: 4 stride: 2 pad: 1 bias_term: false weight_filler { type: "
           "'bilinear' }"),
      {1, 1, 4, 4});
  layer.SetBottom(std::vector<float>(16, 3)).Forward();
  const std::vector<float> y = layer.top_values();
  for (int row = 1; row < 7; ++row) {
    for (int column = 1; column < 7; ++column) {
      EXPECT_FLOAT_EQ(y[static_cast<size_t>(8 * row + column)], 3);
    }
  }
}

TEST(Deconvolution, RefusesPaddingThatLeavesNothing) {
  EXPECT_EQ(
      ErrorText<ConfigError>([] {
        LayerTester<float>(Text("num_output: 1 kernel_size: 2\n pad: 2"), {1, 1, 2, 2});
      }),
      "test.prototxt:2:2: error: layer \"test\" (Deconvolution): nothing remains along axis 2: "
      "2 elements give -1 outputs\n"
      "  fix: use a smaller pad, or a larger kernel, stride or input");
}

}  // namespace
}  // namespace carafe
