// The plan of --exchange=auto: which layers exchange factors, by predicted step time.
#pragma once

#include "carafe/exchange/layer_plan.h"
#include "carafe/solvers/solver.h"
#include "carafe/solvers/training_state.h"

namespace carafe {

// A collective call before Solver::Connect; the same answer on every rank. Layers that `asked`
// names keep their scheme. Takes the plan of `state` (of the snapshot that the run resumes from)
// where ranks, hosts, workers and global batch are the same and `asked` agrees; else measures, and
// logs a table. Keeps the plan in `state`.
template <typename T>
LayerPlan MakeAutoPlan(Solver<T>& solver, Group& group, const SchemeSettings& scheme,
                       const LayerPlan& asked, TrainingState* state);

}  // namespace carafe
