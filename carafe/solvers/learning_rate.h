// The learning rate as a function of the iteration: Caffe's seven policies, and an optional warm-up
// before them.
#pragma once

#include <cstdint>
#include <string>

#include "carafe/proto/messages.h"
#include "carafe/proto/text.h"

namespace carafe {

// Stateful only for `multistep`, whose step advances by at most one per call, as in Caffe.
// Snapshots hold it, and that of `step`.
class LearningRate {
 public:
  // Throws ConfigError for an unknown policy (with the nearest names) or settings that it lacks.
  LearningRate(const SolverParameter& param, const Place& place);

  // The rate that iteration `iteration` uses. Must be called once per iteration, in order, for
  // multistep.
  double Rate(int64_t iteration);
  // Multiplies every rate; the first `iterations` of warm-up rise linearly from the unscaled rate
  // to the scaled one.
  void SetScale(double scale, int64_t warmup_iterations);

  int current_step() const { return current_step_; }
  void set_current_step(int step) { current_step_ = step; }
  const std::string& policy() const { return param_.lr_policy(); }

 private:
  double PolicyRate(int64_t iteration);
  const SolverParameter param_;
  int current_step_ = 0;
  double scale_ = 1;
  int64_t warmup_ = 0;
};

}  // namespace carafe
