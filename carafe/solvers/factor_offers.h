// Which parameters can be exchanged by factors (exchange/factor_gather.h), and with how many rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "carafe/exchange/exchange.h"
#include "carafe/exchange/layer_plan.h"
#include "carafe/solvers/worker_team.h"

namespace carafe {

// By worker of this rank and parameter: the rows that its layers offer in a step, at most; 0 where
// they have none, on all ranks alike. For nets that have not run: what layers leave out later (of
// Filter, for example) only makes them fewer.
using FactorRows = std::vector<std::vector<int64_t>>;
template <typename T>
FactorRows FactorRowsOfStep(WorkerTeam<T>& team, int iter_size);

// Sets ParamInfo::factors, unless the plan wants the layer dense.
template <typename T>
void OfferFactors(const Net<T>& net, int param, const FactorRows& rows, const LayerPlan& plan,
                  ParamInfo<T>* info);

// The layer whose name stands for a parameter in a plan: the first that uses it.
template <typename T>
const std::string& LayerOf(const Net<T>& net, int param);

// Throws ConfigError where the plan names a layer that the net does not have, or factors of one
// that has none.
template <typename T>
void CheckPlan(const LayerPlan& plan, const Net<T>& net, const FactorRows& rows);

}  // namespace carafe
