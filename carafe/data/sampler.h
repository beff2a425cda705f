// Which record goes where: a pure function, the same on every rank, so no rank sends anything about
// it. Data are an endless sequence of epochs. In TRAIN, slot j of pass n takes position
// origin + n G + j of that sequence, and slot j is row j div P of worker j mod P. So in each pass P
// workers together see what one worker with the global batch G sees.
#pragma once

#include <cstdint>

#include "carafe/core/run_context.h"

namespace carafe {

// Element `index` of a permutation of 0 .. n-1 that (key, epoch) chooses. Computed on the spot by a
// Feistel network over a x b >= n with cycle walking: no table, for any n.
int64_t ShuffledIndex(uint64_t key, int64_t epoch, int64_t n, int64_t index);

struct EpochPosition {
  int64_t epoch = 0;
  int64_t index = 0;  // within the epoch
};

struct Sampler {
  int64_t batch = 0;  // K: batch_size, rows of one worker
  bool shard = true;  // TRAIN: records are divided among the workers; TEST: every worker reads all

  // The rows that this worker has in each pass: K, or its share of a given global batch (the slots
  // j < G with j mod P = w: shares differ by one at most).
  int64_t Rows(const Replica& replica) const;
  // The slot of a row: names its random draws.
  int64_t Slot(const Replica& replica, int64_t row) const;
  // Where a row lies in the sequence of epochs of `records` records each.
  EpochPosition At(const Pass& pass, const Replica& replica, int64_t row, int64_t records) const;
};

}  // namespace carafe
