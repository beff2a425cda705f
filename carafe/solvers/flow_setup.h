// What every ParameterFlow is made of.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "carafe/exchange/exchange.h"
#include "carafe/exchange/layer_plan.h"
#include "carafe/solvers/factor_offers.h"
#include "carafe/solvers/running_statistics.h"
#include "carafe/solvers/updater.h"
#include "carafe/solvers/worker_team.h"

namespace carafe {

struct ConnectOptions {
  size_t bucket_bytes = size_t{4} << 20;
  std::vector<int> bucket_sizes = {};  // instead, see ExchangeSetup
  bool overlap = true;
  int staleness = 0;  // see ExchangeSetup, as the next
  ServerSettings server = {};
  // > 0: ranks train alone for rounds of so many steps, which end at multiples of it; workers of
  // all ranks count as those of one rank, and history differs between ranks.
  int local_steps = 0;
  double outer_rate = 1, outer_momentum = 0;  // see ExchangeSetup
  SchemeSettings scheme = {};
  const Codec* codec = nullptr;  // of the gradients between ranks; outlives the connection
  LayerPlan plan = {};           // layers that it does not name: as the exchange decides
};

// All of these outlive the flow.
template <typename T>
struct FlowSetup {
  WorkerTeam<T>& team;
  Updater<T>& updater;
  RunningStatistics<T>& running;
  Group& group;
  const std::string& exchange;  // the name of the strategy
  const ConnectOptions& options;
  const FactorRows& factor_rows;
  bool gradients_are_seen = false;  // by callbacks: no update before all sums are there
};

}  // namespace carafe
