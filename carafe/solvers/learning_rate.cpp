#include "carafe/solvers/learning_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

#include "carafe/base/log.h"
#include "carafe/base/suggest.h"

namespace carafe {
namespace {

const std::vector<std::string>& Policies() {
  static const std::vector<std::string> policies = {
      "fixed", "step", "exp", "inv", "multistep", "poly", "sigmoid", "cosine", "plateau"};
  return policies;
}

}  // namespace

LearningRate::LearningRate(const SolverParameter& param, const Place& place) : param_(param) {
  const std::string& policy = param.lr_policy();
  if (std::ranges::find(Policies(), policy) == Policies().end()) {
    throw ConfigError(
        place.Find("lr_policy"),
        policy.empty() ? "lr_policy is missing" : fmt::format("unknown lr_policy \"{}\"", policy),
        DidYouMean(policy, Policies()));
  }
  const auto check = [&](bool condition, const char* field, const std::string& what,
                         const char* fix) {
    if (!condition) throw ConfigError(place.Find(field), what, fix);
  };
  const bool uses_gamma = policy != "fixed" && policy != "poly" && policy != "cosine";
  check(!uses_gamma || param.gamma() >= 0, "gamma", "gamma is negative", "give a gamma >= 0");
  check(policy != "step" || param.stepsize() > 0, "stepsize",
        "lr_policy \"step\" needs a positive stepsize", "add e.g. stepsize: 10000");
  check(policy != "cosine" || param.max_iter() > 0, "max_iter",
        "lr_policy \"cosine\" needs a positive max_iter", "add e.g. max_iter: 10000");
  check(policy != "plateau" || param.plateau_winsize_size() > 0, "plateau_winsize",
        "lr_policy \"plateau\" needs a plateau_winsize for each time the rate shall fall",
        "add e.g. plateau_winsize: 10000");
  for (int i = 0; i < param.plateau_winsize_size(); ++i) {
    check(param.plateau_winsize(i) > 0, "plateau_winsize",
          fmt::format("plateau_winsize is {}", param.plateau_winsize(i)),
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

double LearningRate::PolicyRate(int64_t iteration) {
  const std::string& policy = param_.lr_policy();
  const double base = param_.base_lr(), gamma = param_.gamma(), power = param_.power();
  const double iter = static_cast<double>(iteration), least = param_.min_lr();
  if (policy == "step") {
    current_step_ = static_cast<int>(iteration / param_.stepsize());  // snapshots hold it
    return base * std::pow(gamma, current_step_);
  }
  if (policy == "exp") return base * std::pow(gamma, iter);
  if (policy == "inv") return base * std::pow(1 + gamma * iter, -power);
  if (policy == "multistep") {
    if (current_step_ < param_.stepvalue_size() && iteration >= param_.stepvalue(current_step_)) {
      ++current_step_;
      LogInfo("MultiStep Status: Iteration {}, step = {}", iteration, current_step_);
    }
    return base * std::pow(gamma, current_step_);
  }
  if (policy == "poly") {
    const double part = std::pow(1 - iter / static_cast<double>(param_.max_iter()), power);
    return param_.min_lr() > 0 ? least + (base - least) * part : base * part;
  }
  if (policy == "cosine") {
    const double part = std::min(iter / static_cast<double>(param_.max_iter()), 1.0);
    return least + (base - least) * (1 + std::cos(std::numbers::pi * part)) / 2;
  }
  if (policy == "plateau") {
    if (current_step_ < param_.plateau_winsize_size() &&
        iteration >= plateau_.since + param_.plateau_winsize(current_step_)) {
      ++current_step_;
      plateau_.since = iteration;
      LogInfo("Plateau Status: Iteration {}, step = {}", iteration, current_step_);
    }
    return base * std::pow(gamma, current_step_);
  }
  if (policy == "sigmoid") {
    return base / (1 + std::exp(-gamma * (iter - static_cast<double>(param_.stepsize()))));
  }
  return base;
}

double LearningRate::FileRate(int64_t iteration) {
  if (iteration < param_.rampup_interval()) {
    const double part = static_cast<double>(iteration) / param_.rampup_interval();
    const double start = param_.rampup_lr();
    return start + (param_.base_lr() - start) * part;
  }
  const double rate = PolicyRate(iteration);
  return param_.min_lr() > 0 ? std::max<double>(rate, param_.min_lr()) : rate;
}

void LearningRate::Observe(int64_t iteration, double loss) {
  if (param_.lr_policy() != "plateau" || !std::isfinite(loss)) return;
  std::vector<double>& losses = plateau_.losses;
  losses.push_back(loss);
  while (losses.size() > static_cast<size_t>(param_.average_loss())) losses.erase(losses.begin());
  const double smoothed =
      std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
  if (smoothed >= plateau_.lowest) return;
  plateau_.lowest = smoothed;
  plateau_.since = iteration;
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
