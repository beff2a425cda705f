// The plan of a run, layer by layer: which weight gradients are exchanged as factors.
#pragma once

#include <string>

#include "carafe/exchange/layer_plan.h"
#include "carafe/solvers/solver.h"
#include "carafe/train/options.h"

namespace carafe {

// What the layers of a net name in their files, by exchange_scheme. Throws ConfigError, with its
// place, for a name that is no scheme.
template <typename T>
LayerPlan SchemesOfFile(const Net<T>& net);

// --plan of these options, which WithSolver has resolved, then what the net's file names for other
// layers. Throws ConfigError where the exchange takes no factors and --plan is given, or where the
// net does not have what is named.
template <typename T>
LayerPlan AskedPlan(const TrainOptions& options, Solver<T>& solver);

// For the log: that schemes of the net's file are not used by this exchange. "" if there are none,
// or if it uses them.
template <typename T>
std::string UnusedSchemes(const TrainOptions& options, Solver<T>& solver);

// Of a connected solver: every layer that has factors, in the form of --plan. "" if there is none,
// or if the exchange takes none.
template <typename T>
std::string PlanText(Solver<T>& solver);

}  // namespace carafe
