// The learning rate as a function of the iteration: Caffe's seven policies, cosine and plateau, and
// optional warm-ups before them. A new policy is one entry of the table in learning_rate.cpp; one
// that remembers something keeps it in a field of RatePolicyState (training_state.proto).
#pragma once

#include <cstdint>
#include <string>

#include "carafe/proto/messages.h"
#include "carafe/proto/state_messages.h"
#include "carafe/proto/text.h"

namespace carafe {

struct RatePolicy;

// Used by one thread. What a policy remembers between iterations is a message, so that a snapshot
// takes and restores it without knowing the policy.
class LearningRate {
 public:
  // Throws ConfigError for an unknown policy (with the nearest names) or settings that it lacks.
  LearningRate(const SolverParameter& param, const Place& place);

  // The rate that iteration `iteration` uses. Must be called once per iteration, in order, for
  // policies with state: multistep advances by at most one step per call, as in Caffe.
  double Rate(int64_t iteration);
  // The loss of an iteration, mean over all workers; the next rate of `plateau` depends on it.
  // Losses that are not finite are skipped.
  void Observe(int64_t iteration, double loss);
  // Multiplies every rate; the first `iterations` of warm-up rise linearly from the unscaled rate
  // to the scaled one.
  void SetScale(double scale, int64_t warmup_iterations);

  const RatePolicyState& state() const { return state_; }
  void set_state(const RatePolicyState& state) { state_ = state; }
  int current_step() const { return state_.step(); }
  const std::string& policy() const { return param_.lr_policy(); }

 private:
  double FileRate(int64_t iteration);  // with rampup_interval and min_lr
  const SolverParameter param_;
  const RatePolicy* policy_;  // of the static table
  RatePolicyState state_;
  double scale_ = 1;
  int64_t warmup_ = 0;
};

}  // namespace carafe
