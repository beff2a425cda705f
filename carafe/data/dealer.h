// Which record goes where: a pure function, the same on every rank, so nothing is ever sent about
// it. In TRAIN slot j of pass n takes position i = origin + n G + j of the endless row of epochs;
// slot j is row j div P of worker j mod P. P workers together thus see in each pass what one worker
// with the global batch G sees.
#pragma once

#include <cstdint>

#include "carafe/core/run_context.h"

namespace carafe {

// Element `index` of a permutation of 0 .. n-1 that (key, epoch) chooses. Computed on the spot by a
// Feistel network over a x b >= n with cycle walking: no table, whatever n.
int64_t ShuffledIndex(uint64_t key, int64_t epoch, int64_t n, int64_t index);

struct Dealer {
  int64_t records = 0;       // N
  int64_t batch = 0;         // K: batch_size, rows of one worker
  bool deal = true;          // TRAIN: over the workers; TEST: every worker reads its pass by itself
  bool shuffle = false;      // a new order in each epoch, else file order
  uint64_t shuffle_key = 0;  // of seed and layer

  // The rows that this worker has in each pass: K, or its share of a given global batch (the slots
  // j < G with j mod P = w: shares differ by one at most).
  int64_t Rows(const Replica& replica) const;
  // The slot of a row: names its random draws.
  int64_t Slot(const Replica& replica, int64_t row) const;
  // The position of a row in the endless row of epochs: epoch position / N, index position % N.
  int64_t Position(const Pass& pass, const Replica& replica, int64_t row) const;
  // The index of the record that row `row` gets.
  int64_t Record(const Pass& pass, const Replica& replica, int64_t row) const;
};

}  // namespace carafe
