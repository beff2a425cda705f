// All layers that are one function of each element: AbsVal, BNLL, Clip, ELU, Exp, Log, Power,
// ReLU6, Sigmoid, Swish, TanH, Threshold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

struct Case {
  const char* name;
  const char* text;
  double (*function)(double);
  std::vector<double> kinks;
  double least = -1e30;  // inputs are folded to at least this
  bool in_place = true;  // allowed, and the gradient is right
};
double Logistic(double x) { return 1 / (1 + std::exp(-x)); }
const Case kCases[] = {
    {"AbsVal",
     "type: 'AbsVal'",
     [](double x) { return std::fabs(x); },
     {0},
     -1e30,
     /*in_place=*/false},
    {"Bnll", "type: 'BNLL'", [](double x) { return std::log1p(std::exp(x)); }, {}},
    {"Clip",
     "type: 'Clip' clip_param { min: -0.5 max: 0.75 }",
     [](double x) { return std::min(0.75, std::max(-0.5, x)); },
     {-0.5, 0.75}},
    {"Elu", "type: 'ELU'", [](double x) { return x > 0 ? x : std::expm1(x); }, {0}},
    {"EluWithAlpha",
     "type: 'ELU' elu_param { alpha: 0.5 }",
     [](double x) { return x > 0 ? x : 0.5 * std::expm1(x); },
     {0}},
    {"EluWithNegativeAlpha",
     "type: 'ELU' elu_param { alpha: -0.5 }",
     [](double x) { return x > 0 ? x : -0.5 * std::expm1(x); },
     {0}},
    {"Exp", "type: 'Exp'", [](double x) { return std::exp(x); }, {}},
    {"ExpWithAll",
     "type: 'Exp' exp_param { base: 2 shift: 0.5 scale: -3 }",
     [](double x) { return std::pow(2, 0.5 - 3 * x); },
     {}},
    {"Log", "type: 'Log'", [](double x) { return std::log(x); }, {}, 0.2},
    {"LogWithAll",
     "type: 'Log' log_param { base: 2 shift: 0.5 scale: 3 }",
     [](double x) { return std::log2(0.5 + 3 * x); },
     {},
     0.2},
    {"PowerDefault", "type: 'Power'", [](double x) { return x; }, {}, -1e30, false},
    {"PowerLinear",
     "type: 'Power' power_param { scale: 2 shift: -1 }",
     [](double x) { return 2 * x - 1; },
     {},
     -1e30,
     false},
    {"PowerSquare",
     "type: 'Power' power_param { power: 2 scale: 0.5 shift: 1 }",
     [](double x) { return (0.5 * x + 1) * (0.5 * x + 1); },
     {}},
    {"PowerCube", "type: 'Power' power_param { power: 3 }", [](double x) { return x * x * x; }, {}},
    {"PowerRoot",
     "type: 'Power' power_param { power: 0.5 shift: 1 }",
     [](double x) { return std::sqrt(x + 1); },
     {},
     0.1},
    {"PowerZero", "type: 'Power' power_param { power: 0 }", [](double) { return 1.0; }, {}},
    {"PowerOfAConstant",
     "type: 'Power' power_param { power: 2 scale: 0 shift: 3 }",
     [](double) { return 9.0; },
     {}},
    {"Relu6", "type: 'ReLU6'", [](double x) { return std::min(6.0, std::max(0.0, x)); }, {0, 6}},
    {"Sigmoid", "type: 'Sigmoid' sigmoid_param { engine: CUDNN }", Logistic, {}},
    {"Swish", "type: 'Swish'", [](double x) { return x * Logistic(x); }, {}},
    {"SwishWithBeta",
     "type: 'Swish' swish_param { beta: 1.5 }",
     [](double x) { return x * Logistic(1.5 * x); },
     {}},
    {"TanH",
     "type: 'TanH' tanh_param { engine: CUDNN }",
     [](double x) { return std::tanh(x); },
     {}},
};

class FunctionLayerTest : public ::testing::TestWithParam<Case> {};

TEST_P(FunctionLayerTest, FollowsItsFormulaAndHasRightGradientsAlsoInPlace) {
  for (const bool in_place : {false, true}) {
    if (in_place && !GetParam().in_place) continue;
    LayerTester<double> layer(GetParam().text, {2, 3, 4}, {.in_place = in_place});
    std::vector<double> x = layer.bottom_values(), expected;
    for (double& value : x) {
      if (value < GetParam().least) value = GetParam().least + std::fabs(value);
      expected.push_back(GetParam().function(value));
    }
    layer.SetBottom(x).Forward();
    EXPECT_EQ(layer.top().shape(), (Shape{2, 3, 4}));
    EXPECT_THAT(layer.top_values(), ::testing::Pointwise(::testing::DoubleNear(1e-12), expected));
    EXPECT_LT(GradientError(layer, {.kinks = GetParam().kinks}), 1e-6) << "in place: " << in_place;
  }
}
INSTANTIATE_TEST_SUITE_P(Layers, FunctionLayerTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(Functions, DoNotOverflowFarFromZero) {
  for (const char* type : {"Sigmoid", "TanH", "BNLL", "Swish", "ELU"}) {
    LayerTester<float> layer(std::string("type: '") + type + "'", {2});
    layer.SetBottom({-1000, 1000}).SetTopDiff({1, 1}).Forward().Backward();
    for (const float value : layer.top_values()) EXPECT_TRUE(std::isfinite(value)) << type;
    for (const float value : layer.bottom_diff()) EXPECT_TRUE(std::isfinite(value)) << type;
  }
}

TEST(Power, InPlaceWithPower1HasTheGradientOfTheOriginal) {
  LayerTester<float> layer("type: 'Power' power_param { scale: 3 }", {2}, {.in_place = true});
  layer.SetBottom({1, -2}).Forward().SetTopDiff({5, 7}).Backward();
  EXPECT_THAT(layer.bottom_diff(), ::testing::ElementsAre(9, 9));
}

TEST(Clip, PassesTheGradientAtItsLimits) {
  LayerTester<float> layer("type: 'Clip' clip_param { min: -1 max: 2 }", {4});
  layer.SetBottom({-2, -1, 2, 3}).SetTopDiff({1, 2, 3, 4}).Forward().Backward();
  EXPECT_THAT(layer.bottom_diff(), ::testing::ElementsAre(0, 2, 3, 0));
}

TEST(Relu6, StopsAtSixAndPassesTheGradientStrictlyBetween) {
  for (const bool in_place : {false, true}) {
    LayerTester<float> layer("type: 'ReLU6'", {5}, {.in_place = in_place});
    layer.SetBottom({-2, 0, 5, 6, 9}).SetTopDiff({1, 2, 3, 4, 5}).Forward();
    EXPECT_THAT(layer.top_values(), ::testing::ElementsAre(0, 0, 5, 6, 6));
    EXPECT_THAT(layer.Backward().bottom_diff(), ::testing::ElementsAre(0, 0, 3, 0, 0));
  }
}

TEST(AbsVal, HasSlopeZeroAtZero) {
  LayerTester<float> layer("type: 'AbsVal'", {3});
  layer.SetBottom({-2, 0, 2}).SetTopDiff({1, 1, 1}).Forward().Backward();
  EXPECT_THAT(layer.bottom_diff(), ::testing::ElementsAre(-1, 0, 1));
}

TEST(Threshold, IsOneStrictlyAboveAndHasNoGradient) {
  LayerTester<float> layer("name: 't' type: 'Threshold' threshold_param { threshold: 1 }", {3});
  layer.SetBottom({0, 1, 2}).SetTopDiff({1, 1, 1}).Forward();
  EXPECT_THAT(layer.top_values(), ::testing::ElementsAre(0, 0, 1));
  EXPECT_NO_THROW(layer.Backward({false}));
  EXPECT_EQ(ErrorText<ConfigError>([&] { layer.Backward({true}); }),
            "test.prototxt: error: layer \"t\" (Threshold): Threshold has no gradient\n"
            "  fix: keep it out of the path from the loss to the parameters");
}

TEST(Functions, RefuseNumbersThatMakeNoSense) {
  const auto error = [](const std::string& text) {
    return ErrorText<ConfigError>([&] { LayerTester<float>(text, {1}); });
  };
  EXPECT_EQ(error("type: 'Exp' exp_param {\n base: -2 }"),
            "test.prototxt:2:2: error: layer \"test\" (Exp): base is -2\n"
            "  fix: use a positive base, or -1 for e");
  EXPECT_EQ(error("type: 'Log' log_param {\n base: 0 }"),
            "test.prototxt:2:2: error: layer \"test\" (Log): base is 0\n"
            "  fix: use a positive base other than 1, or -1 for e");
  EXPECT_EQ(error("type: 'Clip'\nclip_param { min: 1 max: 0 }"),
            "test.prototxt:2:14: error: layer \"test\" (Clip): min is larger than max\n"
            "  fix: exchange them");
  EXPECT_EQ(error("type: 'Clip'"),
            "test.prototxt: error: layer \"test\" (Clip): min or max is missing\n"
            "  fix: give both, e.g. clip_param { min: -1 max: 1 }");
}

}  // namespace
}  // namespace carafe
