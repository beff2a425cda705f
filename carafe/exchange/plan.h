// Which gradients are sent together: the same on every rank, fixed before the first step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "carafe/exchange/exchange.h"

namespace carafe {

// A run of parameters that are neighbours in the arena, in the order of the backward pass.
struct Bucket {
  std::vector<int> params;
  int64_t count = 0;  // elements from the first parameter's start to the last one's end
};

struct Plan {
  std::vector<Bucket> buckets;
  std::vector<int> bucket_of;  // by parameter
  std::string text;            // one line per bucket; equal texts mean equal plans
};

constexpr double kLatenciesMerged = 10;
// Which neighbours to merge so that the last sum ends as early as it can, one sum after the
// other:
//   end(i) = min over j < i of max(end(j), ready(i - 1)) + latency + per_byte * bytes(j .. i - 1)
// for pieces in the order in which they become ready. Few large sums pay the latency seldom, many
// small ones begin early, and let the next forward pass begin early as well: its first layer must
// not wait for the megabytes of its last. So nothing is merged into what takes more than
// kLatenciesMerged latencies, where there is little to save. Returns the number of pieces in each
// merged one.
std::vector<int> MergeForEarliestEnd(std::span<const double> ready, std::span<const int64_t> bytes,
                                     const SumCost& cost);

// Fills buckets up to bucket_bytes, or takes `sizes` parameters each where that is not empty; a
// larger parameter has one of its own, and so has one with factors. The parameters of a bucket have
// the same codec and memory. Gaps of the arena of less than a cache line (alignment) are sent
// along.
template <typename T>
Plan MakePlan(std::span<const ParamInfo<T>> params, size_t bucket_bytes,
              std::span<const int> sizes = {});
// Parameters in the order of the arena, which is that of the backward pass.
template <typename T>
std::vector<int> ArenaOrder(std::span<const ParamInfo<T>> params);

// Everything besides the buckets that decides which messages a rank sends and expects, one line
// each: must be equal on all ranks. When messages leave may differ (overlap, threads) and is not
// included.
std::string SchemeText(const Group& group, const Scheme& scheme, const SchemeSettings& settings,
                       int workers);
// A collective call. Throws ConfigError, on every rank, naming the first line of scheme and plan
// that differs, both values, and whose they are.
void ComparePlans(Group& group, const std::string& scheme, const Plan& plan);

}  // namespace carafe
