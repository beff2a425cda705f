// Some steps of an exchange on ranks that are threads, with gradients that show any other order of
// their sum.
#pragma once

#include <string>
#include <vector>

#include "carafe/comm/run_ranks.h"
#include "carafe/exchange/exchange.h"

namespace carafe {

// The values after some steps of `ranks` times `workers`, each with gradients of its own and a
// thread of its own; the same on all ranks. With a seed, workers are late at random.
std::vector<float> ValuesAfter(const std::string& scheme, int ranks, int workers, bool overlap,
                               bool needs_all, const SchemeSettings& settings = {},
                               int delay_seed = 0, const RankLink& link = {});

}  // namespace carafe
