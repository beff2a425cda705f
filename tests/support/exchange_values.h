// Some steps of an exchange on ranks that are threads, with gradients whose sum shows any other
// order of addition.
#pragma once

#include <string>
#include <vector>

#include "carafe/comm/run_ranks.h"
#include "carafe/core/device.h"
#include "carafe/exchange/exchange.h"

namespace carafe {

struct ValuesCase {
  std::string exchange = "allreduce";
  int ranks = 2;
  int workers = 1;  // of each rank, each with gradients and a thread of its own
  bool overlap = true;
  bool needs_all = false;  // ExchangeSetup::update_needs_all
  SchemeSettings settings = {};
  int delay_seed = 0;  // not 0: workers are late at random
  RankLink link = {};
  const Codec* codec = nullptr;  // of every parameter but the first
  // Hold gradients and values: one device for all workers, which share the values, or one for each,
  // with a copy of its own. Empty: host memory.
  std::vector<Device*> devices = {};
};

struct ValuesResult {
  std::vector<float> values;        // after three steps; the same on all ranks
  std::vector<int64_t> bytes_sent;  // by rank
};

ValuesResult RunValues(const ValuesCase& c);

// The values of a case that is given by position.
std::vector<float> ValuesAfter(const std::string& exchange, int ranks, int workers, bool overlap,
                               bool needs_all, const SchemeSettings& settings = {},
                               int delay_seed = 0, const RankLink& link = {});

}  // namespace carafe
