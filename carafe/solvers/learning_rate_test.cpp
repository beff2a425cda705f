#include "carafe/solvers/learning_rate.h"

#include <gmock/gmock.h>
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
    {"Multifixed",
     "lr_policy: \"multifixed\" stagelr: 0.25 stageiter: 2 stagelr: 1 stageiter: 4",
     {{0, 0.25}, {2, 0.25}, {3, 1}, {4, 1}, {5, 1}, {100, 1}}},
    {"Poly",
     "lr_policy: \"poly\" power: 2 max_iter: 100",
     {{0, 0.5}, {50, 0.125}, {75, 0.03125}, {100, 0}}},
    {"Sigmoid",
     "lr_policy: \"sigmoid\" gamma: 0.5 stepsize: 10",
     {{0, 0.5 / (1 + std::exp(5.0))}, {10, 0.25}, {20, 0.5 / (1 + std::exp(-5.0))}}},
    {"Cosine",
     "lr_policy: \"cosine\" max_iter: 120",
     {{0, 0.5}, {40, 0.375}, {60, 0.25}, {80, 0.125}, {120, 0}, {500, 0}}},
    {"CosineToMinLr",
     "lr_policy: \"cosine\" max_iter: 120 min_lr: 0.25",
     {{0, 0.5}, {60, 0.375}, {80, 0.3125}, {120, 0.25}, {500, 0.25}}},
    {"PolyToMinLr",
     "lr_policy: \"poly\" power: 2 max_iter: 100 min_lr: 0.25",
     {{0, 0.5}, {50, 0.3125}, {100, 0.25}}},
    {"StepNotBelowMinLr",
     "lr_policy: \"step\" gamma: 0.5 stepsize: 10 min_lr: 0.1875",
     {{0, 0.5}, {10, 0.25}, {20, 0.1875}, {90, 0.1875}}},
    {"RampUpFromZero",
     "lr_policy: \"fixed\" rampup_interval: 4",
     {{0, 0}, {1, 0.125}, {3, 0.375}, {4, 0.5}, {5, 0.5}}},
    {"RampUpFromRampupLrWhateverThePolicy",
     "lr_policy: \"step\" gamma: 0.5 stepsize: 2 rampup_interval: 4 rampup_lr: 0.25 min_lr: 0.0625",
     {{0, 0.25}, {2, 0.375}, {4, 0.125}, {6, 0.0625}}},
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
  RatePolicyState state;
  state.set_step(1);
  rate.set_state(state);
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

TEST(LearningRate, FallsByGammaAtEachPlateauOfTheLoss) {
  LearningRate rate =
      Make("base_lr: 1 lr_policy: \"plateau\" gamma: 0.5 plateau_winsize: 3 plateau_winsize: 2");
  const double losses[] = {5, 4, 4.5, 4, 4, 3, 3, 3, 3, 3, 3};
  const double rates[] = {1, 1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25};
  // The lowest loss is that of iteration 1; 3 iterations on the rate falls, and 2 after the new
  // lowest of iteration 5 again; then the list is at its end.
  for (int i = 0; i < 11; ++i) {
    EXPECT_EQ(rate.Rate(i), rates[i]) << "iteration " << i;
    rate.Observe(i, losses[i]);
  }
  EXPECT_EQ(rate.current_step(), 2);
  EXPECT_EQ(rate.state().plateau().lowest(), 3);
}

TEST(LearningRate, JudgesAPlateauByTheSmoothedLossAndPassesOverNaN) {
  LearningRate rate =
      Make("base_lr: 1 lr_policy: \"plateau\" gamma: 0.5 plateau_winsize: 4 average_loss: 2");
  const double losses[] = {4, 2, 3, NAN, 2.5};
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(rate.Rate(i), 1);
    rate.Observe(i, losses[i]);
  }
  EXPECT_THAT(rate.state().plateau().losses(), ::testing::ElementsAre(3, 2.5));
  EXPECT_EQ(rate.state().plateau().lowest(), 2.5);  // (2 + 3) / 2
  EXPECT_EQ(rate.state().plateau().since(), 2);
  EXPECT_EQ(rate.Rate(5), 1);
  EXPECT_EQ(rate.Rate(6), 0.5);
}

// A snapshot holds the state of a policy as a message, whatever the policy.
TEST(LearningRate, GoesOnFromTheStateOfAnother) {
  const std::string text =
      "base_lr: 1 lr_policy: \"plateau\" gamma: 0.5 plateau_winsize: 3 plateau_winsize: 2 "
      "plateau_winsize: 2 average_loss: 2";
  LearningRate whole = Make(text), first = Make(text), second = Make(text);
  const double losses[] = {5, 4, 4, 4, 4, 4, 4, 4, 3, 4, 4};
  for (int i = 0; i < 11; ++i) {
    if (i == 4) {
      RatePolicyState stored;
      ASSERT_TRUE(stored.ParseFromString(first.state().SerializeAsString()));
      second.set_state(stored);
    }
    LearningRate& part = i < 4 ? first : second;
    EXPECT_EQ(part.Rate(i), whole.Rate(i)) << "iteration " << i;
    part.Observe(i, losses[i]);
    whole.Observe(i, losses[i]);
  }
  EXPECT_GT(second.current_step(), first.current_step());
}

// As a state of Caffe, or of a run with another policy.
TEST(LearningRate, CountsAPlateauFromTheIterationThatResumesAStateWithoutOne) {
  LearningRate rate = Make("base_lr: 1 lr_policy: \"plateau\" gamma: 0.5 plateau_winsize: 3");
  rate.set_state({});
  EXPECT_EQ(rate.Rate(100), 1);
  EXPECT_EQ(rate.Rate(102), 1);
  EXPECT_EQ(rate.Rate(103), 0.5);
}

std::string ErrorOf(const std::string& text) {
  return ErrorText<ConfigError>([&] { Make(text); });
}

TEST(LearningRate, SaysWhatAPolicyLacks) {
  EXPECT_EQ(ErrorOf("base_lr: 1\nlr_policy: \"stepp\""),
            "s.prototxt:2:1: error: unknown lr_policy \"stepp\"\n  fix: did you mean \"step\"?");
  EXPECT_EQ(ErrorOf("base_lr: 1"),
            "s.prototxt: error: lr_policy is missing\n  fix: use one of: fixed, step, exp, inv, "
            "multistep, multifixed, poly, sigmoid, cosine, plateau");
  EXPECT_EQ(ErrorOf("lr_policy: \"exp\"\ngamma: -1"),
            "s.prototxt:2:1: error: gamma is negative\n  fix: give a gamma >= 0");
  EXPECT_EQ(ErrorOf("lr_policy: \"step\" gamma: 0.1"),
            "s.prototxt: error: lr_policy \"step\" needs a positive stepsize\n"
            "  fix: add e.g. stepsize: 10000");
  EXPECT_EQ(ErrorOf("lr_policy: \"cosine\""),
            "s.prototxt: error: lr_policy \"cosine\" needs a positive max_iter\n"
            "  fix: add e.g. max_iter: 10000");
  EXPECT_EQ(ErrorOf("lr_policy: \"plateau\" gamma: 0.1"),
            "s.prototxt: error: lr_policy \"plateau\" needs a plateau_winsize for each time the "
            "rate shall fall\n  fix: add e.g. plateau_winsize: 10000");
  EXPECT_EQ(ErrorOf("lr_policy: \"plateau\"\nplateau_winsize: 0"),
            "s.prototxt:2:1: error: plateau_winsize is 0\n"
            "  fix: give a number of iterations above 0");
  EXPECT_EQ(ErrorOf("lr_policy: \"fixed\"\nrampup_interval: -1"),
            "s.prototxt:2:1: error: rampup_interval is -1\n"
            "  fix: give 0 or a number of iterations");
  EXPECT_EQ(ErrorOf("lr_policy: \"fixed\"\nrampup_lr: -1"),
            "s.prototxt:2:1: error: rampup_lr is -1\n"
            "  fix: give the rate to start from, 0 or more");
  EXPECT_EQ(ErrorOf("lr_policy: \"fixed\"\nmin_lr: -1"),
            "s.prototxt:2:1: error: min_lr is -1\n  fix: give the lowest rate, 0 or more");
}

}  // namespace
}  // namespace carafe
