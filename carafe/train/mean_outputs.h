// The outputs of the train net as the log shows them: means over all workers of all ranks.
#pragma once

#include <vector>

#include "carafe/comm/group.h"
#include "carafe/solvers/worker_team.h"
#include "carafe/train/tester.h"

namespace carafe {

// The outputs of the last forward pass, in the log's order, each element as its mean over the
// workers weighted by their rows (core/row_share.h). Where workers have different numbers of
// elements (one per row, and uneven rows), an element's mean is over those that have it. A
// collective call by the thread of worker 0, between steps; every rank gets the result.
template <typename T>
std::vector<Score> MeanOutputs(Group& group, WorkerTeam<T>& team);
// The same of this rank's workers alone; not collective.
template <typename T>
std::vector<Score> OwnOutputs(WorkerTeam<T>& team);

}  // namespace carafe
