#include "carafe/data/sampler.h"

#include <cmath>

#include "carafe/base/random.h"
#include "carafe/core/row_share.h"

namespace carafe {
namespace {

constexpr int kRounds = 8;

// One pass of the network over pairs (left, right), 0 <= left < a, 0 <= right < b. Each round adds
// a function of one half to the other, which can be undone: so it is a permutation of the a*b
// pairs.
int64_t Permute(uint64_t key, int64_t epoch, int64_t a, int64_t b, int64_t index) {
  auto left = static_cast<uint64_t>(index / b), right = static_cast<uint64_t>(index % b);
  for (int round = 0; round < kRounds; ++round) {
    uint64_t& changed = round % 2 == 0 ? left : right;
    const uint64_t other = round % 2 == 0 ? right : left;
    const auto modulus = static_cast<uint64_t>(round % 2 == 0 ? a : b);
    const Philox4 bits = Philox(key, other, static_cast<uint64_t>(epoch) * kRounds + round);
    changed = (changed + ((uint64_t{bits.v[0]} << 32) | bits.v[1]) % modulus) % modulus;
  }
  return static_cast<int64_t>(left) * b + static_cast<int64_t>(right);
}

}  // namespace

int64_t ShuffledIndex(uint64_t key, int64_t epoch, int64_t n, int64_t index) {
  const auto a = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(n))));
  const int64_t b = (n + a - 1) / a;  // a*b < n + a: a second step is rare
  do {
    index = Permute(key, epoch, a, b, index);
  } while (index >= n);
  return index;
}

int64_t Sampler::Rows(const Replica& replica) const {
  return shard ? RowsOf(replica, batch) : batch;
}

int64_t Sampler::Slot(const Replica& replica, int64_t row) const {
  return shard ? replica.Slot(row) : row;
}

EpochPosition Sampler::At(const Pass& pass, const Replica& replica, int64_t row,
                          int64_t records) const {
  const int64_t per_pass = shard ? replica.GlobalRows(batch) : batch;
  const int64_t position = pass.origin + pass.index * per_pass + Slot(replica, row);
  return {position / records, position % records};
}

}  // namespace carafe
