// The net of a file that is a net's or a solver's.
#pragma once

#include <string>

#include "carafe/solvers/solver_spec.h"
#include "carafe/train/options.h"

namespace carafe {

// A net's own, or the train or first test net of a solver. Throws ConfigError or DataError.
SolverNet NetOfFile(const std::string& file, Phase phase, const RunOptions& options);

}  // namespace carafe
