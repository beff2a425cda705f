// Settings of forks that the solver's files give and a run takes as its own.
#pragma once

#include "carafe/solvers/solver_spec.h"

namespace carafe {

// NVCaffe's number of buckets that the gradients of the train net are sent in; 0: not given.
int ReduceBucketsOf(const SolverSpec& spec);

}  // namespace carafe
