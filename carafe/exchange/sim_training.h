// Training in virtual time: the ranks of a cluster that is not there run the real engine with the
// real programs on the simulated network (comm/sim_transport.h), and take the seconds of a profile
// for their passes. What is sent has sizes only. Forecasts (train/forecast.h) are made of it.
//
// A rank waits in front of a layer for the values of its parameters, as in training: the forward
// pass, the votes, then the backward pass, which announces gradients from the last layer down.
// Taken as free: adding and copying what arrives, which runs on other cores.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "carafe/comm/sim_transport.h"
#include "carafe/exchange/exchange.h"

namespace carafe {

struct SimParam {
  int64_t count = 0;         // elements of 4 bytes
  FactorShape factors = {};  // of one rank's step; rows 0: it is summed
};

struct SimLayer {
  double forward = 0, backward = 0;  // seconds
  std::vector<int> params = {};      // that it is the first to use
};

struct SimNet {
  std::vector<SimParam> params = {};
  std::vector<SimLayer> layers = {};  // in the order of the forward pass; every parameter in one
  double update_per_byte = 0;         // seconds of the update rule, per byte of gradient
  double flops = 1e12;                // per second, of the products of factors

  // Seconds of one rank's step without any exchange; with factors of `ranks` ranks their products,
  // as far as they exceed the local gradient.
  double ComputeSeconds(int ranks) const;
  int64_t GradientBytes() const;
};

struct SimCase {
  std::string exchange = "allreduce";  // a scheme (scheme.h), or "ssp"; with factors: allreduce
  int ranks = 1;
  int staleness = 0;  // of ssp
  int steps = 2;      // measured, after those that fill the pipeline
  SimOptions network = {};
  int64_t bucket_bytes = int64_t{4} << 20;  // of ssp; other buckets are chosen by measurement
  int64_t least_message_bytes =
      0;  // messages are as long, at least: fewer events for the simulator
  // By which factor the passes of a rank take longer in a step; empty: none does.
  std::function<double(int rank, int64_t step)> slowdown = {};
};

struct SimOutcome {
  double step_seconds = 0;     // of the slowest rank, mean over the measured steps
  double compute_seconds = 0;  // passes, updates and products: mean over ranks and measured steps
  int64_t bytes = 0;           // that the busiest rank sends in a step
  int64_t messages = 0;        // of all ranks and steps, with headers: what the simulation cost
};

// For 2 ranks or more. Throws InternalError if the ranks do not finish.
SimOutcome SimulateTraining(const SimNet& net, const SimCase& c);

// About how many messages, without headers, all ranks send in a step.
int64_t MessagesOfStep(const SimNet& net, const SimCase& c);

}  // namespace carafe
