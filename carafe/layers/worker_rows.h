// Rows of all workers together: what a choice between kernels whose results differ in their last
// digits may depend on. It is the same for one worker with the global batch and for P workers with
// their shares of it, while the rows of one worker are not.
#pragma once

#include "carafe/core/row_share.h"
#include "carafe/layers/layer.h"

namespace carafe {

// `rows` is how many this worker has: its share of the batch, or a multiple of it (time steps). In
// TEST every worker runs batches of its own.
template <typename T>
int64_t RowsOfAllWorkers(const Layer<T>& layer, const Replica& replica, int64_t rows) {
  if (layer.spec().phase() == TEST) return rows;
  if (replica.global_batch <= 0) return rows * replica.count;
  const int64_t share = RowsOf(replica, rows);
  return share > 0 ? rows * replica.global_batch / share : rows;
}

}  // namespace carafe
