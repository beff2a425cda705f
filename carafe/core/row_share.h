// A worker's share of the rows of a pass, and its weight in every mean over the workers: gradients,
// losses and displayed outputs all use these two functions.
#pragma once

#include <cstdint>

#include "carafe/core/run_context.h"

namespace carafe {

// The worker's rows of a pass: the slots j of the global batch with j mod count == index, so that
// shares differ by one row at most; `batch` where no global batch is given.
inline int64_t RowsOf(const Replica& replica, int64_t batch) {
  if (replica.global_batch <= 0) return batch;
  return (replica.global_batch - replica.index + replica.count - 1) / replica.count;
}

// The worker's weight in a mean over all workers, which is sum(weight * x) / sum(weight): its rows,
// scaled so that the weights of all workers add up to their number and equal shares weigh 1 each.
inline double WeightOf(const Replica& replica) {
  if (replica.global_batch <= 0) return 1;
  return static_cast<double>(RowsOf(replica, 0)) * replica.count /
         static_cast<double>(replica.global_batch);
}

// Whether all workers have the same number of rows, and so the weight 1.
inline bool SharesAreEqual(const Replica& replica) {
  return replica.global_batch <= 0 || replica.global_batch % replica.count == 0;
}

}  // namespace carafe
