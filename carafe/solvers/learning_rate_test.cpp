#include "carafe/solvers/learning_rate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/error_text.h"

namespace carafe {
namespace {

LearningRate Make(const std::string& text) {
  SolverParameter param;
  const Place place = ParseText(text, "s.prototxt", &param);
  return LearningRate(param, place);
}

struct PolicyCase {
  const char* name;
  const char* settings;
  std::vector<std::pair<int64_t, double>> rates;  // iteration, rate, in order
};
const PolicyCase kPolicies[] = {
    {"Fixed", "lr_policy: \"fixed\"", {{0, 0.5}, {1, 0.5}, {1000, 0.5}}},
    {"Step",
     "lr_policy: \"step\" gamma: 0.5 stepsize: 10",
     {{0, 0.5}, {9, 0.5}, {10, 0.25}, {19, 0.25}, {20, 0.125}, {45, 0.03125}}},
    {"Exp", "lr_policy: \"exp\" gamma: 0.5", {{0, 0.5}, {1, 0.25}, {3, 0.0625}}},
    {"Inv", "lr_policy: \"inv\" gamma: 0.25 power: 2", {{0, 0.5}, {4, 0.125}, {12, 0.03125}}},
    {"Multistep",
     "lr_policy: \"multistep\" gamma: 0.5 stepvalue: 2 stepvalue: 3 stepvalue: 7",
     {{0, 0.5}, {1, 0.5}, {2, 0.25}, {3, 0.125}, {4, 0.125}, {7, 0.0625}, {100, 0.0625}}},
    {"Poly",
     "lr_policy: \"poly\" power: 2 max_iter: 100",
     {{0, 0.5}, {50, 0.125}, {75, 0.03125}, {100, 0}}},
    {"Sigmoid",
     "lr_policy: \"sigmoid\" gamma: 0.5 stepsize: 10",
     {{0, 0.5 / (1 + std::exp(5.0))}, {10, 0.25}, {20, 0.5 / (1 + std::exp(-5.0))}}},
};

class LearningRatePolicy : public ::testing::TestWithParam<PolicyCase> {};
TEST_P(LearningRatePolicy, GivesTheRatesOfItsFormula) {
  LearningRate rate = Make(std::string("base_lr: 0.5 ") + GetParam().settings);
  for (const auto& [iteration, expected] : GetParam().rates) {
    EXPECT_NEAR(rate.Rate(iteration), expected, 1e-15) << "iteration " << iteration;
  }
}
INSTANTIATE_TEST_SUITE_P(All, LearningRatePolicy, ::testing::ValuesIn(kPolicies),
                         [](const auto& info) { return info.param.name; });

// A run that starts beyond several steps (a snapshot without current_step) catches up one by one.
TEST(LearningRate, MultistepAdvancesByOneStepPerIteration) {
  LearningRate rate =
      Make("base_lr: 1 lr_policy: \"multistep\" gamma: 0.5 stepvalue: 1 stepvalue: 2 stepvalue: 3");
  EXPECT_EQ(rate.Rate(50), 0.5);
  EXPECT_EQ(rate.current_step(), 1);
  EXPECT_EQ(rate.Rate(51), 0.25);
  EXPECT_EQ(rate.Rate(52), 0.125);
  EXPECT_EQ(rate.Rate(53), 0.125);
  EXPECT_EQ(rate.current_step(), 3);
  rate.set_current_step(1);
  EXPECT_EQ(rate.Rate(54), 0.25);
}

TEST(LearningRate, CountsTheStepsOfStepForSnapshots) {
  LearningRate rate = Make("base_lr: 1 lr_policy: \"step\" gamma: 0.5 stepsize: 10");
  rate.Rate(9);
  EXPECT_EQ(rate.current_step(), 0);
  rate.Rate(45);
  EXPECT_EQ(rate.current_step(), 4);
}

TEST(LearningRate, WarmsUpFromThePlainRateToTheScaledOne) {
  LearningRate rate = Make("base_lr: 1 lr_policy: \"fixed\"");
  rate.SetScale(4, 3);
  EXPECT_DOUBLE_EQ(rate.Rate(0), 2);
  EXPECT_DOUBLE_EQ(rate.Rate(1), 3);
  EXPECT_DOUBLE_EQ(rate.Rate(2), 4);
  EXPECT_DOUBLE_EQ(rate.Rate(3), 4);
}

TEST(LearningRate, WarmsUpFromZeroWhereNothingIsScaled) {
  LearningRate rate = Make("base_lr: 1 lr_policy: \"fixed\"");
  rate.SetScale(1, 4);
  EXPECT_DOUBLE_EQ(rate.Rate(0), 0.25);
  EXPECT_DOUBLE_EQ(rate.Rate(3), 1);
  EXPECT_DOUBLE_EQ(rate.Rate(10), 1);
}

std::string ErrorOf(const std::string& text) {
  return ErrorText<ConfigError>([&] { Make(text); });
}

TEST(LearningRate, SaysWhatAPolicyLacks) {
  EXPECT_EQ(ErrorOf("base_lr: 1\nlr_policy: \"stepp\""),
            "s.prototxt:2:1: error: unknown lr_policy \"stepp\"\n  fix: did you mean \"step\"?");
  EXPECT_EQ(ErrorOf("base_lr: 1"),
            "s.prototxt: error: lr_policy is missing\n  fix: use one of: fixed, step, exp, inv, "
            "multistep, poly, sigmoid");
  EXPECT_EQ(ErrorOf("lr_policy: \"exp\"\ngamma: -1"),
            "s.prototxt:2:1: error: gamma is negative\n  fix: give a gamma >= 0");
  EXPECT_EQ(ErrorOf("lr_policy: \"step\" gamma: 0.1"),
            "s.prototxt: error: lr_policy \"step\" needs a positive stepsize\n"
            "  fix: add e.g. stepsize: 10000");
}

}  // namespace
}  // namespace carafe
