#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

std::string Text(const std::string& param) {
  return "type: \"InnerProduct\" inner_product_param { " + param + " }";
}

struct Case {
  const char* name;
  const char* param;
  Shape bottom, top;
};
const Case kCases[] = {
    {"FlattensFromAxisOne", "num_output: 5", {2, 3, 4}, {2, 5}},
    {"CountsAxisFromTheEnd", "num_output: 5 axis: -1", {2, 3, 4}, {2, 3, 5}},
    {"TakesAllAsOneVectorFromAxisZero", "num_output: 4 axis: 0", {2, 3}, {4}},
    {"WithoutBias", "num_output: 1 bias_term: false", {7, 2}, {7, 1}},
    {"WithTransposedWeights", "num_output: 3 transpose: true", {2, 3, 2}, {2, 3}},
};

class InnerProductTest : public ::testing::TestWithParam<Case> {};
TEST_P(InnerProductTest, InfersTopShapeAndGradients) {
  LayerTester<double> layer(Text(GetParam().param), GetParam().bottom);
  EXPECT_EQ(layer.top().shape(), GetParam().top);
  EXPECT_LT(GradientError(layer), 1e-8);
}
INSTANTIATE_TEST_SUITE_P(Layers, InnerProductTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(InnerProduct, AddsBiasToEachRow) {
  LayerTester<float> layer(Text("num_output: 2"), {2, 2});
  layer.SetBottom({1, 2, 0, 1}).SetParam(0, {3, 4, 5, 6}).SetParam(1, {10, 20}).Forward();
  EXPECT_THAT(layer.top_values(), ::testing::ElementsAre(21, 37, 14, 26));
}

TEST(InnerProduct, AddsToParameterGradientsButOverwritesTheBottoms) {
  LayerTester<float> layer(Text("num_output: 1"), {1, 2});
  layer.SetBottom({1, 2}).SetParam(0, {3, 4}).SetTopDiff({2}).Forward().Backward().BackwardAgain();
  EXPECT_THAT(layer.param_diff(0), ::testing::ElementsAre(4, 8));
  EXPECT_THAT(layer.param_diff(1), ::testing::ElementsAre(4));
  EXPECT_THAT(layer.bottom_diff(), ::testing::ElementsAre(6, 8));
}

TEST(InnerProduct, LeavesFrozenParametersAlone) {
  LayerTester<float> layer(Text("num_output: 1"), {1, 2});
  layer.layer().set_param_propagate_down(0, false);
  layer.SetBottom({1, 2}).SetParam(0, {3, 4}).SetTopDiff({2}).Forward().Backward();
  EXPECT_THAT(layer.param_diff(0), ::testing::ElementsAre(0, 0));
  EXPECT_THAT(layer.param_diff(1), ::testing::ElementsAre(2));
}

TEST(InnerProduct, SaysWhereNumOutputIsMissing) {
  const std::string text = "type: \"InnerProduct\"\ninner_product_param {\n  num_output: 0\n}";
  EXPECT_EQ(ErrorText<ConfigError>([&] {
              LayerTester<float>(text, {1, 2});
            }),
            "test.prototxt:3:3: error: layer \"test\" (InnerProduct): num_output is 0 or missing\n"
            "  fix: give the number of outputs, e.g. num_output: 10");
}

}  // namespace
}  // namespace carafe
