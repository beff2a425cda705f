#include "carafe/data/dealer.h"

#include <cmath>

#include "carafe/base/random.h"

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
  const int64_t b = (n + a - 1) / a;  // a*b < n + a: hardly ever a second step
  do {
    index = Permute(key, epoch, a, b, index);
  } while (index >= n);
  return index;
}

int64_t Dealer::Rows(const Replica& replica) const {
  if (!deal || replica.global_batch <= 0) return batch;
  return (replica.global_batch - replica.index + replica.count - 1) / replica.count;
}

int64_t Dealer::Slot(const Replica& replica, int64_t row) const {
  return deal ? replica.Slot(row) : row;
}

int64_t Dealer::Position(const Pass& pass, const Replica& replica, int64_t row) const {
  const int64_t per_pass = deal ? replica.GlobalRows(batch) : batch;
  return pass.origin + pass.index * per_pass + Slot(replica, row);
}

int64_t Dealer::Record(const Pass& pass, const Replica& replica, int64_t row) const {
  const int64_t position = Position(pass, replica, row);
  const int64_t epoch = position / records, index = position % records;
  return shuffle ? ShuffledIndex(shuffle_key, epoch, records, index) : index;
}

}  // namespace carafe
