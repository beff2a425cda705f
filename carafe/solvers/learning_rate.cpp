#include "carafe/solvers/learning_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "carafe/base/log.h"
#include "carafe/base/suggest.h"

namespace carafe {
namespace {

const std::vector<std::string>& Policies() {
  static const std::vector<std::string> policies = {"fixed",     "step", "exp",    "inv",
                                                    "multistep", "poly", "sigmoid"};
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
  const bool uses_gamma = policy != "fixed" && policy != "poly";
  check(!uses_gamma || param.gamma() >= 0, "gamma", "gamma is negative", "give a gamma >= 0");
  check(policy != "step" || param.stepsize() > 0, "stepsize",
        "lr_policy \"step\" needs a positive stepsize", "add e.g. stepsize: 10000");
}

double LearningRate::PolicyRate(int64_t iteration) {
  const std::string& policy = param_.lr_policy();
  const double base = param_.base_lr(), gamma = param_.gamma(), power = param_.power();
  const double iter = static_cast<double>(iteration);
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
    return base * std::pow(1 - iter / static_cast<double>(param_.max_iter()), power);
  }
  if (policy == "sigmoid") {
    return base / (1 + std::exp(-gamma * (iter - static_cast<double>(param_.stepsize()))));
  }
  return base;
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
  return scale * PolicyRate(iteration);
}

}  // namespace carafe
