// Which rank owns which elements of a bucket of parameters (plan.h), and the programs that move
// gradients to the owners and values from them.
#pragma once

#include <cstdint>
#include <vector>

#include "carafe/exchange/exchange.h"
#include "carafe/exchange/plan.h"
#include "carafe/exchange/program.h"

namespace carafe {

// Sums of squares are made block by block, as SumOfSquares (kernels/math.h) does, so that sharding
// changes no bit of a norm.
constexpr int64_t kNormBlock = 4096;  // elements, counted from a parameter's first

enum class ShardCut {
  kElements,     // anywhere: shards of a bucket differ by one element at most
  kNormBlocks,   // between blocks of kNormBlock elements of a parameter
  kWholeParams,  // buckets of one parameter each, which belongs to one rank
};

// A parameter in the memory of its bucket.
struct PlacedParam {
  int param = 0;
  int64_t offset = 0;
  int64_t count = 0;
};

struct ShardedBucket {
  std::vector<PlacedParam> params;  // in the order of the arena
  int64_t count = 0;                // elements
  std::vector<int64_t> bounds;      // rank r owns [bounds[r], bounds[r + 1])
};

// The same on all ranks. Whole parameters go to the rank with the fewest elements so far, largest
// first.
template <typename T>
std::vector<ShardedBucket> LayOutShards(const Plan& plan, std::span<const ParamInfo<T>> params,
                                        int ranks, ShardCut cut);

// The part of a parameter that a rank owns.
Shard OwnedPart(const ShardedBucket& bucket, const PlacedParam& param, int rank);

// Every rank's part of a shard goes to its owner, who adds in the fixed tree; messages of at most
// `message` elements: n (P-1)/P bytes.
std::vector<Program> SumAtShards(const std::vector<int64_t>& bounds, int rank, int64_t message);
// The parts of one rank's memory go to their owners, as above, and stay apart there: in the memory
// of an owner the ranges count from the begin of its shard.
std::vector<Program> SendToOwners(const std::vector<int64_t>& bounds, int rank, int source,
                                  int64_t message);
// Every owner's shard goes to all others: n (P-1)/P bytes.
std::vector<Program> SpreadFromShards(const std::vector<int64_t>& bounds, int rank,
                                      int64_t message);

}  // namespace carafe
