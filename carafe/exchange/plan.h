// Which gradients travel together: the same on every rank, fixed before the first step.
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

// Fills buckets up to bucket_bytes; a larger parameter has one of its own. Gaps of the arena of
// less than a cache line (alignment) travel along.
template <typename T>
Plan MakePlan(std::span<const ParamInfo<T>> params, size_t bucket_bytes);

// A collective call. Throws ConfigError, on every rank, naming the first line that differs and
// whose it is.
void ComparePlans(Group& group, const Plan& plan);

}  // namespace carafe
