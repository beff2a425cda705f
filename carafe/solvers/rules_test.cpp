// Each update rule: against closed forms on constant gradients, and whole trajectories of a least
// squares problem against formulas written down here once more.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "carafe/comm/group.h"
#include "carafe/solvers/solver.h"
#include "carafe/solvers/update_rule.h"
#include "tests/support/least_squares.h"

namespace carafe {
namespace {

// One number under one rule with a gradient that does not change.
class OneNumber {
 public:
  OneNumber(const std::string& type, const RuleConfig& config)
      : rule_(RuleRegistry::Instance().Find(type)->make_double(config)) {}
  double Step(double rate, double gradient) {
    gradient_ = gradient;
    UpdateArgs<double> step;
    step.count = 1;
    step.value = &value_;
    step.gradient = &gradient_;
    for (int s = 0; s < rule_->num_slots(); ++s) step.slots[s] = &slots_[s];
    step.rate = rate;
    step.iteration = iteration_++;
    const double before = value_;
    rule_->Apply(stream_, step);
    EXPECT_EQ(gradient_, 0) << "the gradient is cleared in the same pass";
    return before - value_;
  }
  double value() const { return value_; }

 private:
  Stream stream_;
  std::unique_ptr<UpdateRule<double>> rule_;
  double value_ = 0, gradient_ = 0, slots_[2] = {0, 0};
  int64_t iteration_ = 0;
};

TEST(UpdateRule, SgdSumsAGeometricSeries) {
  OneNumber x("SGD", {.momentum = 0.9});
  for (int k = 1; k <= 20; ++k) {
    EXPECT_NEAR(x.Step(0.1, 3), 0.3 * (1 - std::pow(0.9, k)) / 0.1, 1e-13);
  }
}

TEST(UpdateRule, NesterovLooksAheadByMomentum) {
  OneNumber x("Nesterov", {.momentum = 0.9});
  for (int k = 1; k <= 20; ++k) {
    // v_k = 0.3 (1 - mu^k) / (1 - mu); the step is (1 + mu) v_k - mu v_{k-1}
    const double now = 3 * (1 - std::pow(0.9, k)), before = 3 * (1 - std::pow(0.9, k - 1));
    EXPECT_NEAR(x.Step(0.1, 3), 1.9 * now - 0.9 * before, 1e-13);
  }
}

TEST(UpdateRule, AdaGradStepsFallWithTheRootOfTheCount) {
  OneNumber x("AdaGrad", {.delta = 1e-12});
  for (int k = 1; k <= 20; ++k) EXPECT_NEAR(x.Step(0.1, -3), -0.1 / std::sqrt(k), 1e-12);
}

TEST(UpdateRule, RmsPropForgets) {
  OneNumber x("RMSProp", {.delta = 1e-12, .rms_decay = 0.9});
  for (int k = 1; k <= 20; ++k) {
    EXPECT_NEAR(x.Step(0.1, 3), 0.1 / std::sqrt(1 - std::pow(0.9, k)), 1e-11);
  }
}

TEST(UpdateRule, AdamStepsByTheRateWhateverTheGradientsSize) {
  for (const double gradient : {1e-3, 5.0, -40.0}) {
    OneNumber x("Adam", {.momentum = 0.9, .momentum2 = 0.999, .delta = 1e-14});
    for (int k = 1; k <= 20; ++k)
      EXPECT_NEAR(x.Step(0.1, gradient), std::copysign(0.1, gradient), 1e-9);
  }
}

TEST(UpdateRule, AdaDeltaStartsAtTheRootOfDelta) {
  OneNumber x("AdaDelta", {.momentum = 0.95, .delta = 1e-6});
  const double square = 0.05 * 9;
  EXPECT_NEAR(x.Step(0.5, 3), 0.5 * 3 * std::sqrt(1e-6 / (square + 1e-6)), 1e-12);
}

TEST(UpdateRule, AdamWStepsAsAdamWhereNothingDecays) {
  const RuleConfig config{.momentum = 0.9, .momentum2 = 0.99, .delta = 1e-3};
  OneNumber adam("Adam", config), adamw("AdamW", config);
  for (int k = 1; k <= 20; ++k) {
    const double gradient = std::sin(k);
    EXPECT_EQ(adamw.Step(0.1, gradient), adam.Step(0.1, gradient));
  }
}

// From 0 the first step is plain; later ones are `eta` parts of the value, whatever the gradient.
TEST(UpdateRule, LarsStepsByAPartOfTheValueWhateverTheGradientsSize) {
  for (const double gradient : {1e-3, 5.0, -40.0}) {
    OneNumber x("LARS", {.trust_coefficient = 0.25});
    EXPECT_DOUBLE_EQ(x.Step(0.5, gradient), 0.5 * gradient);
    const double before = std::fabs(x.value());
    EXPECT_NEAR(x.Step(0.5, gradient), std::copysign(0.5 * 0.25 * before, gradient), 1e-12);
  }
}

// One number w = 2 with gradient 4 and decay 0.5, at lr_mult 10, which none of them looks at.
TEST(UpdateRule, LarsStepsByTheFormulasOfForks) {
  const auto step = [](LocalRate kind, double base_rate) {
    Stream stream;
    const auto rule = RuleRegistry::Instance().Find("LARS")->make_double(
        {.trust_coefficient = 0.25, .local_rate = kind, .weight_decay = 0.125});
    double value = 2, gradient = 4, slot = 0;
    UpdateArgs<double> args;
    args.count = 1;
    args.value = &value;
    args.gradient = &gradient;
    args.slots[0] = &slot;
    args.rate = 10 * base_rate;
    args.base_rate = base_rate;
    args.l2 = 0.5;
    rule->Apply(stream, args);
    return 2 - value;
  };
  const double r = 0.25 * 2 / 4, decayed = 4 + 0.5 * 2;
  EXPECT_DOUBLE_EQ(step(LocalRate::kLarcScale, 0.5), 0.5 * r * decayed);
  EXPECT_DOUBLE_EQ(step(LocalRate::kLarcClip, 0.5), r * decayed);
  EXPECT_DOUBLE_EQ(step(LocalRate::kLarcClip, 0.1), 0.1 * decayed);
  EXPECT_DOUBLE_EQ(step(LocalRate::kIntel, 0.5), 0.5 * 0.25 * 2 / (5 + 0.125 * 2) * decayed);
}

TEST(UpdateRule, LambStepsByTheRateTimesTheValue) {
  for (const double gradient : {1e-3, 5.0, -40.0}) {
    OneNumber x("LAMB", {.momentum = 0.9, .momentum2 = 0.999, .delta = 1e-14});
    EXPECT_NEAR(x.Step(0.5, gradient), std::copysign(0.5, gradient), 1e-9);
    const double before = std::fabs(x.value());
    EXPECT_NEAR(x.Step(0.5, gradient), std::copysign(0.5 * before, gradient), 1e-9);
  }
}

TEST(UpdateRule, LeavesTheUpdateInTheGradientWhenAsked) {
  Stream stream;
  double value = 1, gradient = 2, slot = 0;
  UpdateArgs<double> step;
  step.count = 1;
  step.value = &value;
  step.gradient = &gradient;
  step.slots[0] = &slot;
  step.rate = 0.25;
  step.keep_update = true;
  RuleRegistry::Instance().Find("SGD")->make_double({})->Apply(stream, step);
  EXPECT_EQ(value, 0.5);
  EXPECT_EQ(gradient, 0.5);
}

// ---- trajectories ----

struct Trajectory {
  const char* name;
  const char* type;
  const char* settings;         // of the solver
  const char* layer_more = "";  // param entries of the layer
  // Floats, as the file's settings are.
  float momentum = 0, momentum2 = 0.999f, delta = 1e-8f, rho = 0.99f;
  float decay = 0;
  bool l1 = false;
  int iter_size = 1;
  float clip = -1;
  float lr_mult[2] = {1, 1}, decay_mult[2] = {1, 1};  // of w and c
  float trust = 0.001f;
};

const char kMults[] = "param { lr_mult: 0.5 decay_mult: 2 } param { lr_mult: 2 decay_mult: 0 }";
const char kFrozen[] = "param { lr_mult: 0 } param { lr_mult: 1 }";

const Trajectory kTrajectories[] = {
    {.name = "Sgd", .type = "SGD", .settings = ""},
    {.name = "SgdMomentumDecay",
     .type = "SGD",
     .settings = "momentum: 0.9 weight_decay: 0.1",
     .momentum = 0.9f,
     .decay = 0.1f},
    {.name = "SgdL1",
     .type = "SGD",
     .settings = "weight_decay: 0.1 regularization_type: \"L1\"",
     .decay = 0.1f,
     .l1 = true},
    {.name = "SgdClip",
     .type = "SGD",
     .settings = "clip_gradients: 0.05 weight_decay: 0.1",
     .decay = 0.1f,
     .clip = 0.05f},
    {.name = "SgdClipThatIsNotReached",
     .type = "SGD",
     .settings = "clip_gradients: 50",
     .clip = 50},
    {.name = "SgdClipToZero", .type = "SGD", .settings = "clip_gradients: 0", .clip = 0},
    {.name = "SgdIterSize",
     .type = "SGD",
     .settings = "iter_size: 3 momentum: 0.5",
     .momentum = 0.5f,
     .iter_size = 3},
    {.name = "SgdIterSizeClipDecay",
     .type = "SGD",
     .settings = "iter_size: 2 clip_gradients: 0.05 weight_decay: 0.1",
     .decay = 0.1f,
     .iter_size = 2,
     .clip = 0.05f},
    {.name = "SgdMults",
     .type = "SGD",
     .settings = "momentum: 0.9 weight_decay: 0.1",
     .layer_more = kMults,
     .momentum = 0.9f,
     .decay = 0.1f,
     .lr_mult = {0.5f, 2},
     .decay_mult = {2, 0}},
    {.name = "SgdFrozenClip",
     .type = "SGD",
     .settings = "clip_gradients: 0.05 weight_decay: 0.1",
     .layer_more = kFrozen,
     .decay = 0.1f,
     .clip = 0.05f,
     .lr_mult = {0, 1}},
    {.name = "Nesterov",
     .type = "Nesterov",
     .settings = "momentum: 0.9 weight_decay: 0.1",
     .momentum = 0.9f,
     .decay = 0.1f},
    {.name = "NesterovIterSizeL1",
     .type = "Nesterov",
     .settings = "momentum: 0.9 weight_decay: 0.1 regularization_type: \"L1\" iter_size: 2",
     .momentum = 0.9f,
     .decay = 0.1f,
     .l1 = true,
     .iter_size = 2},
    {.name = "AdaGrad", .type = "AdaGrad", .settings = "weight_decay: 0.1", .decay = 0.1f},
    {.name = "AdaGradMultsClip",
     .type = "AdaGrad",
     .settings = "weight_decay: 0.1 delta: 0.001 clip_gradients: 0.05",
     .layer_more = kMults,
     .delta = 0.001f,
     .decay = 0.1f,
     .clip = 0.05f,
     .lr_mult = {0.5f, 2},
     .decay_mult = {2, 0}},
    {.name = "RmsProp",
     .type = "RMSProp",
     .settings = "weight_decay: 0.1 rms_decay: 0.9",
     .rho = 0.9f,
     .decay = 0.1f},
    {.name = "RmsPropIterSize",
     .type = "RMSProp",
     .settings = "iter_size: 3 delta: 0.001",
     .delta = 0.001f,
     .iter_size = 3},
    {.name = "AdaDelta",
     .type = "AdaDelta",
     .settings = "momentum: 0.95 delta: 1e-6 weight_decay: 0.1",
     .momentum = 0.95f,
     .delta = 1e-6f,
     .decay = 0.1f},
    {.name = "AdaDeltaMultsIterSize",
     .type = "AdaDelta",
     .settings = "momentum: 0.9 delta: 1e-4 iter_size: 2",
     .layer_more = kMults,
     .momentum = 0.9f,
     .delta = 1e-4f,
     .iter_size = 2,
     .lr_mult = {0.5f, 2},
     .decay_mult = {2, 0}},
    {.name = "Adam",
     .type = "Adam",
     .settings = "momentum: 0.9 weight_decay: 0.1",
     .momentum = 0.9f,
     .decay = 0.1f},
    {.name = "AdamWithoutMomentum",
     .type = "Adam",
     .settings = "momentum2: 0.99 delta: 0.001",
     .momentum2 = 0.99f,
     .delta = 0.001f},
    {.name = "AdamClipL1",
     .type = "Adam",
     .settings = "momentum: 0.9 weight_decay: 0.1 regularization_type: \"L1\" clip_gradients: 0.05",
     .momentum = 0.9f,
     .decay = 0.1f,
     .l1 = true,
     .clip = 0.05f},
    {.name = "AdamW",
     .type = "AdamW",
     .settings = "momentum: 0.9 weight_decay: 0.1",
     .momentum = 0.9f,
     .decay = 0.1f},
    {.name = "AdamWMultsL1IterSizeClip",
     .type = "AdamW",
     .settings = "momentum: 0.9 momentum2: 0.99 delta: 0.001 weight_decay: 0.1 iter_size: 2 "
                 "regularization_type: \"L1\" clip_gradients: 0.05",
     .layer_more = kMults,
     .momentum = 0.9f,
     .momentum2 = 0.99f,
     .delta = 0.001f,
     .decay = 0.1f,
     .l1 = true,
     .iter_size = 2,
     .clip = 0.05f,
     .lr_mult = {0.5f, 2},
     .decay_mult = {2, 0}},
    {.name = "Lars",
     .type = "LARS",
     .settings = "momentum: 0.9 weight_decay: 0.1",
     .momentum = 0.9f,
     .decay = 0.1f},
    {.name = "LarsMultsIterSizeClip",
     .type = "LARS",
     .settings = "momentum: 0.9 weight_decay: 0.1 trust_coefficient: 0.25 iter_size: 3 "
                 "clip_gradients: 0.05",
     .layer_more = kMults,
     .momentum = 0.9f,
     .decay = 0.1f,
     .iter_size = 3,
     .clip = 0.05f,
     .lr_mult = {0.5f, 2},
     .decay_mult = {2, 0},
     .trust = 0.25f},
    {.name = "Lamb",
     .type = "LAMB",
     .settings = "momentum: 0.9 weight_decay: 0.1",
     .momentum = 0.9f,
     .decay = 0.1f},
    {.name = "LambMultsIterSize",
     .type = "LAMB",
     .settings = "momentum: 0.9 momentum2: 0.99 delta: 0.001 weight_decay: 0.1 iter_size: 2",
     .layer_more = kMults,
     .momentum = 0.9f,
     .momentum2 = 0.99f,
     .delta = 0.001f,
     .decay = 0.1f,
     .iter_size = 2,
     .lr_mult = {0.5f, 2},
     .decay_mult = {2, 0}},
};

// The four numbers w, c and their histories, moved by the formulas.
class Reference {
 public:
  explicit Reference(const Trajectory& t)
      : t_(t), mu_(t.momentum), mu2_(t.momentum2), delta_(t.delta), rho_(t.rho) {}
  void Step(double rate, int64_t rows) {
    std::vector<double> sum(4, 0);
    for (int s = 0; s < t_.iter_size; ++s) {
      const std::vector<double> g =
          LeastSquares::Gradient(iteration_ * t_.iter_size + s, rows, values);
      for (size_t i = 0; i < 4; ++i) sum[i] += g[i];
    }
    double square = 0;
    for (size_t i = 0; i < 4; ++i) square += t_.lr_mult[i / 3] == 0 ? 0 : sum[i] * sum[i];
    const double norm = std::sqrt(square);
    const double scale = t_.clip >= 0 && norm > t_.clip ? t_.clip / norm : 1;
    std::vector<double> gradient(4), shrink(4), change(4);
    for (size_t i = 0; i < 4; ++i) {
      const double decay = double{t_.decay} * t_.decay_mult[i / 3];
      const double sign = values[i] > 0 ? 1 : values[i] < 0 ? -1 : 0;
      gradient[i] = sum[i] * scale / t_.iter_size;
      shrink[i] = decay * (t_.l1 ? sign : values[i]);
    }
    const std::string type = t_.type;
    for (size_t i = 0; i < 4; ++i) {
      const double local = rate * t_.lr_mult[i / 3];
      if (type == "AdamW" || type == "LAMB") {
        change[i] = Change(i, 1, gradient[i]) + shrink[i];
      } else if (type == "LARS") {
        const double w = Norm(values, i), g = Norm(gradient, i);
        const double decay = double{t_.decay} * t_.decay_mult[i / 3];
        change[i] = Change(i, local * t_.trust * w / (g + decay * w), gradient[i] + shrink[i]);
      } else {
        change[i] = Change(i, local, gradient[i] + shrink[i]);
      }
    }
    std::vector<double> next = values;
    for (size_t i = 0; i < 4; ++i) {
      const double local = rate * t_.lr_mult[i / 3];
      double part = 1;
      if (type == "AdamW") part = local;
      if (type == "LAMB") part = local * Norm(values, i) / Norm(change, i);
      next[i] -= part * change[i];
    }
    values = next;
    ++iteration_;
  }
  std::vector<double> values = {0.5, 0.5, 0.5, -0.25};

 private:
  // Of the parameter (w or c) that number i belongs to.
  static double Norm(const std::vector<double>& x, size_t i) {
    return i == 3 ? std::fabs(x[3]) : std::sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2]);
  }
  double Change(size_t i, double rate, double g) {
    const std::string type = t_.type;
    double &a = a_[i], &b = b_[i];
    if (type == "SGD" || type == "LARS") return a = mu_ * a + rate * g;
    if (type == "Nesterov") {
      const double before = a;
      a = mu_ * a + rate * g;
      return (1 + mu_) * a - mu_ * before;
    }
    if (type == "AdaGrad") {
      a += g * g;
      return rate * g / (std::sqrt(a) + delta_);
    }
    if (type == "RMSProp") {
      a = rho_ * a + (1 - rho_) * g * g;
      return rate * g / (std::sqrt(a) + delta_);
    }
    if (type == "AdaDelta") {
      a = mu_ * a + (1 - mu_) * g * g;
      const double d = g * std::sqrt((b + delta_) / (a + delta_));
      b = mu_ * b + (1 - mu_) * d * d;
      return rate * d;
    }
    a = mu_ * a + (1 - mu_) * g;  // Adam, and what AdamW and LAMB share with it
    b = mu2_ * b + (1 - mu2_) * g * g;
    const double n = static_cast<double>(iteration_ + 1);
    return rate * std::sqrt(1 - std::pow(mu2_, n)) / (1 - std::pow(mu_, n)) * a /
           (std::sqrt(b) + delta_);
  }
  const Trajectory t_;
  const double mu_, mu2_, delta_, rho_;
  int64_t iteration_ = 0;
  std::vector<double> a_ = std::vector<double>(4, 0), b_ = a_;
};

template <typename T>
std::vector<double> Values(Solver<T>& solver) {
  std::vector<double> values;
  for (const Param<T>& param : solver.net().params()) {
    for (const T value : param.blob->DataToHost(solver.stream())) values.push_back(value);
  }
  return values;
}

class SolverTrajectory : public ::testing::TestWithParam<Trajectory> {
 protected:
  template <typename T>
  void Check(double tolerance) {
    const Trajectory& t = GetParam();
    const std::string text = fmt::format(
        "type: \"{}\" base_lr: 0.2 lr_policy: \"inv\" gamma: 0.1 power: 0.75 {} net_param {{ {} }}",
        t.type, t.settings, LeastSquares::Layer(5, t.layer_more));
    Stream stream;
    Group group;
    Solver<T> solver(ParseSolverSpec(text, ""), stream, {});
    solver.Connect("allreduce", group, {.bucket_bytes = 1 << 20});
    Reference reference(t);
    for (int i = 0; i < 10; ++i) {
      solver.Step();
      solver.Drain();
      reference.Step(double{0.2f} * std::pow(1 + double{0.1f} * i, -0.75), 5);
      const std::vector<double> got = Values(solver);
      for (size_t k = 0; k < 4; ++k) {
        ASSERT_NEAR(got[k], reference.values[k], tolerance) << "iteration " << i << " number " << k;
      }
    }
  }
};
TEST_P(SolverTrajectory, FollowsTheFormulasInDouble) { Check<double>(1e-12); }
TEST_P(SolverTrajectory, FollowsTheFormulasInFloat) { Check<float>(1e-4); }
INSTANTIATE_TEST_SUITE_P(Rules, SolverTrajectory, ::testing::ValuesIn(kTrajectories),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace carafe
