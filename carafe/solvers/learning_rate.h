// The learning rate as a function of the iteration: Caffe's seven policies, cosine and plateau, and
// optional warm-ups before them.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "carafe/proto/messages.h"
#include "carafe/proto/text.h"

namespace carafe {

// What `plateau` remembers; kept in snapshots.
struct PlateauState {
  double lowest = std::numeric_limits<double>::infinity();  // smoothed loss so far
  int64_t since = 0;           // the iteration of it, or of the last lowering
  std::vector<double> losses;  // the last average_loss of them, oldest first
};

// Stateful only for `multistep`, whose step advances by at most one per call, as in Caffe, and for
// `plateau`. Snapshots hold their state, and the step of `step`.
class LearningRate {
 public:
  // Throws ConfigError for an unknown policy (with the nearest names) or settings that it lacks.
  LearningRate(const SolverParameter& param, const Place& place);

  // The rate that iteration `iteration` uses. Must be called once per iteration, in order, for
  // multistep.
  double Rate(int64_t iteration);
  // The loss of an iteration, mean over all workers; the next rate of `plateau` depends on it. What
  // is not finite is passed over.
  void Observe(int64_t iteration, double loss);
  // Multiplies every rate; the first `iterations` of warm-up rise linearly from the unscaled rate
  // to the scaled one.
  void SetScale(double scale, int64_t warmup_iterations);

  int current_step() const { return current_step_; }
  void set_current_step(int step) { current_step_ = step; }
  const PlateauState& plateau() const { return plateau_; }
  void set_plateau(PlateauState state) { plateau_ = std::move(state); }
  const std::string& policy() const { return param_.lr_policy(); }

 private:
  double PolicyRate(int64_t iteration);
  double FileRate(int64_t iteration);  // with rampup_interval and min_lr
  const SolverParameter param_;
  int current_step_ = 0;
  PlateauState plateau_;
  double scale_ = 1;
  int64_t warmup_ = 0;
};

}  // namespace carafe
