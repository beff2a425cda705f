#include "carafe/solvers/learning_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

#include "carafe/base/log.h"
#include "carafe/base/suggest.h"
#include "carafe/proto/fork_messages.h"

namespace carafe {
namespace {

// A setting that a policy cannot do without.
struct Requirement {
  bool (*holds)(const SolverParameter&);
  const char* field;
  const char* what;
  const char* fix;
};

const Requirement kGamma = {[](const SolverParameter& p) { return p.gamma() >= 0; }, "gamma",
                            "gamma is negative", "give a gamma >= 0"};
const Requirement kStepSize = {[](const SolverParameter& p) { return p.stepsize() > 0; },
                               "stepsize", "lr_policy \"step\" needs a positive stepsize",
                               "add e.g. stepsize: 10000"};
const Requirement kMaxIter = {[](const SolverParameter& p) { return p.max_iter() > 0; }, "max_iter",
                              "lr_policy \"cosine\" needs a positive max_iter",
                              "add e.g. max_iter: 10000"};
const Requirement kWindows = {
    [](const SolverParameter& p) { return p.plateau_winsize_size() > 0; }, "plateau_winsize",
    "lr_policy \"plateau\" needs a plateau_winsize for each time the rate shall fall",
    "add e.g. plateau_winsize: 10000"};

const Requirement kStages = {
    [](const SolverParameter& p) {
      const auto fork = ForkPart<ForkSolverParameter>(p);
      return fork.stagelr_size() > 0 && fork.stagelr_size() == fork.stageiter_size() &&
             std::ranges::is_sorted(fork.stageiter());
    },
    "stagelr", "lr_policy \"multifixed\" needs as many stagelr as stageiter, which rise",
    "add e.g. stagelr: 0.001 stageiter: 10000"};

double Fixed(const SolverParameter& p, int64_t, RatePolicyState&) { return p.base_lr(); }

double AfterSteps(const SolverParameter& p, const RatePolicyState& state) {
  const double base = p.base_lr(), gamma = p.gamma();
  return base * std::pow(gamma, state.step());
}

double Step(const SolverParameter& p, int64_t iteration, RatePolicyState& state) {
  state.set_step(static_cast<int>(iteration / p.stepsize()));  // for Caffe, which reads it
  return AfterSteps(p, state);
}

double Exp(const SolverParameter& p, int64_t iteration, RatePolicyState&) {
  const double base = p.base_lr(), gamma = p.gamma();
  return base * std::pow(gamma, static_cast<double>(iteration));
}

double Inv(const SolverParameter& p, int64_t iteration, RatePolicyState&) {
  const double base = p.base_lr(), gamma = p.gamma(), power = p.power();
  return base * std::pow(1 + gamma * static_cast<double>(iteration), -power);
}

double Multistep(const SolverParameter& p, int64_t iteration, RatePolicyState& state) {
  if (state.step() < p.stepvalue_size() && iteration >= p.stepvalue(state.step())) {
    state.set_step(state.step() + 1);
    LogInfo("MultiStep Status: Iteration {}, step = {}", iteration, state.step());
  }
  return AfterSteps(p, state);
}

double Poly(const SolverParameter& p, int64_t iteration, RatePolicyState&) {
  const double base = p.base_lr(), power = p.power(), least = p.min_lr();
  const double part =
      std::pow(1 - static_cast<double>(iteration) / static_cast<double>(p.max_iter()), power);
  return p.min_lr() > 0 ? least + (base - least) * part : base * part;
}

double Sigmoid(const SolverParameter& p, int64_t iteration, RatePolicyState&) {
  const double base = p.base_lr(), gamma = p.gamma();
  const double beyond = static_cast<double>(iteration) - static_cast<double>(p.stepsize());
  return base / (1 + std::exp(-gamma * beyond));
}

double Cosine(const SolverParameter& p, int64_t iteration, RatePolicyState&) {
  const double base = p.base_lr(), least = p.min_lr();
  const double part =
      std::min(static_cast<double>(iteration) / static_cast<double>(p.max_iter()), 1.0);
  return least + (base - least) * (1 + std::cos(std::numbers::pi * part)) / 2;
}

// intel/caffe, MobileNet-YOLO: rate k up to iteration stageiter[k] and with it, then the next; the
// last one for good.
double MultiFixed(const SolverParameter& p, int64_t iteration, RatePolicyState& state) {
  const auto fork = ForkPart<ForkSolverParameter>(p);
  while (state.step() < fork.stageiter_size() && iteration > fork.stageiter(state.step())) {
    state.set_step(state.step() + 1);
  }
  return static_cast<double>(fork.stagelr(std::min(state.step(), fork.stagelr_size() - 1)));
}

// Starts to count here, at the first iteration or in a run that resumes a state without a plateau.
PlateauState& PlateauFrom(int64_t iteration, RatePolicyState& state) {
  if (!state.has_plateau()) state.mutable_plateau()->set_since(iteration);
  return *state.mutable_plateau();
}

double Plateau(const SolverParameter& p, int64_t iteration, RatePolicyState& state) {
  PlateauState& plateau = PlateauFrom(iteration, state);
  if (state.step() < p.plateau_winsize_size() &&
      iteration >= plateau.since() + p.plateau_winsize(state.step())) {
    state.set_step(state.step() + 1);
    plateau.set_since(iteration);
    LogInfo("Plateau Status: Iteration {}, step = {}", iteration, state.step());
  }
  return AfterSteps(p, state);
}

void ObservePlateau(const SolverParameter& p, int64_t iteration, double loss,
                    RatePolicyState& state) {
  PlateauState& plateau = PlateauFrom(iteration, state);
  auto& losses = *plateau.mutable_losses();
  losses.Add(loss);
  if (losses.size() > p.average_loss()) {
    losses.erase(losses.begin(), losses.end() - p.average_loss());
  }
  const double smoothed =
      std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
  if (smoothed >= plateau.lowest()) return;
  plateau.set_lowest(smoothed);
  plateau.set_since(iteration);
}

}  // namespace

// One policy. `observe` may be null.
struct RatePolicy {
  std::string name;
  std::vector<Requirement> requirements;
  double (*rate)(const SolverParameter&, int64_t iteration, RatePolicyState&);
  void (*observe)(const SolverParameter&, int64_t iteration, double loss, RatePolicyState&);
};

namespace {

const std::vector<RatePolicy>& Policies() {
  static const std::vector<RatePolicy> policies = {
      {"fixed", {}, Fixed, nullptr},
      {"step", {kGamma, kStepSize}, Step, nullptr},
      {"exp", {kGamma}, Exp, nullptr},
      {"inv", {kGamma}, Inv, nullptr},
      {"multistep", {kGamma}, Multistep, nullptr},
      {"multifixed", {kStages}, MultiFixed, nullptr},
      {"poly", {}, Poly, nullptr},
      {"sigmoid", {kGamma}, Sigmoid, nullptr},
      {"cosine", {kMaxIter}, Cosine, nullptr},
      {"plateau", {kGamma, kWindows}, Plateau, ObservePlateau},
  };
  return policies;
}

const RatePolicy& PolicyNamed(const std::string& name, const Place& place) {
  const auto found = std::ranges::find(Policies(), name, &RatePolicy::name);
  if (found != Policies().end()) return *found;
  std::vector<std::string> names;
  for (const RatePolicy& policy : Policies()) names.push_back(policy.name);
  throw ConfigError(
      place.Find("lr_policy"),
      name.empty() ? "lr_policy is missing" : fmt::format("unknown lr_policy \"{}\"", name),
      DidYouMean(name, names));
}

}  // namespace

LearningRate::LearningRate(const SolverParameter& param, const Place& place)
    : param_(param), policy_(&PolicyNamed(param.lr_policy(), place)) {
  const auto check = [&](bool condition, const char* field, const std::string& what,
                         const char* fix) {
    if (!condition) throw ConfigError(place.Find(field), what, fix);
  };
  for (const Requirement& need : policy_->requirements) {
    check(need.holds(param), need.field, need.what, need.fix);
  }
  for (const int window : param.plateau_winsize()) {
    check(window > 0, "plateau_winsize", fmt::format("plateau_winsize is {}", window),
          "give a number of iterations above 0");
  }
  check(param.rampup_interval() >= 0, "rampup_interval",
        fmt::format("rampup_interval is {}", param.rampup_interval()),
        "give 0 or a number of iterations");
  check(param.rampup_lr() >= 0, "rampup_lr", fmt::format("rampup_lr is {}", param.rampup_lr()),
        "give the rate to start from, 0 or more");
  check(param.min_lr() >= 0, "min_lr", fmt::format("min_lr is {}", param.min_lr()),
        "give the lowest rate, 0 or more");
}

double LearningRate::FileRate(int64_t iteration) {
  if (iteration < param_.rampup_interval()) {
    const double part = static_cast<double>(iteration) / param_.rampup_interval();
    const double start = param_.rampup_lr();
    return start + (param_.base_lr() - start) * part;
  }
  const double rate = policy_->rate(param_, iteration, state_);
  return param_.min_lr() > 0 ? std::max<double>(rate, param_.min_lr()) : rate;
}

void LearningRate::Observe(int64_t iteration, double loss) {
  if (policy_->observe == nullptr || !std::isfinite(loss)) return;
  policy_->observe(param_, iteration, loss, state_);
}

void LearningRate::SetScale(double scale, int64_t warmup_iterations) {
  scale_ = scale;
  warmup_ = warmup_iterations;
}

double LearningRate::Rate(int64_t iteration) {
  double scale = scale_;
  if (iteration < warmup_) {
    // From the plain rate (scale 1; from 0 where nothing is scaled) up to the full one.
    const double part = static_cast<double>(iteration + 1) / static_cast<double>(warmup_);
    const double start = scale_ == 1 ? 0 : 1;
    scale = start + (scale_ - start) * part;
  }
  return scale * FileRate(iteration);
}

}  // namespace carafe
