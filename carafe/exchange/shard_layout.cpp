#include "carafe/exchange/shard_layout.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "carafe/base/index.h"

namespace carafe {
namespace {

using Kind = Operation::Kind;

// Where a shard may begin: between norm blocks, and at both ends of the bucket. In order.
std::vector<int64_t> BlockBegins(const ShardedBucket& bucket) {
  std::vector<int64_t> begins = {0};
  for (const PlacedParam& param : bucket.params)
    for (int64_t at = 0; at < param.count; at += kNormBlock) begins.push_back(param.offset + at);
  begins.push_back(bucket.count);
  return begins;
}

int64_t Nearest(const std::vector<int64_t>& places, int64_t ideal) {
  const auto after = std::ranges::lower_bound(places, ideal);
  if (after == places.begin()) return *after;
  return ideal - *(after - 1) < *after - ideal ? *(after - 1) : *after;
}

void CutEvenly(ShardedBucket& bucket, int ranks, ShardCut cut) {
  std::vector<int64_t> begins;
  if (cut == ShardCut::kNormBlocks) begins = BlockBegins(bucket);
  for (int r = 0; r <= ranks; ++r) {
    const int64_t ideal = SegmentBegin(0, bucket.count, ranks, r);
    bucket.bounds.push_back(begins.empty() ? ideal : Nearest(begins, ideal));
  }
}

void GiveToOwners(std::vector<ShardedBucket>& buckets, int ranks) {
  std::vector<int> by_size(buckets.size());
  std::iota(by_size.begin(), by_size.end(), 0);
  std::ranges::stable_sort(by_size, std::greater<>(), [&](int b) { return At(buckets, b).count; });
  std::vector<int64_t> load(static_cast<size_t>(ranks));
  for (const int b : by_size) {
    const auto owner = std::ranges::min_element(load) - load.begin();
    ShardedBucket& bucket = At(buckets, b);
    At(load, owner) += bucket.count;
    for (int r = 0; r <= ranks; ++r) bucket.bounds.push_back(r <= owner ? 0 : bucket.count);
  }
}

struct Range {
  int64_t begin, end;
};

// Message k of a shard.
Range MessageOf(const std::vector<int64_t>& bounds, int rank, int64_t message, int64_t k) {
  const int64_t end = At(bounds, rank + 1);
  const int64_t begin = std::min(At(bounds, rank) + k * message, end);
  return {begin, std::min(begin + message, end)};
}

// Chunk k has message k of every shard.
std::vector<Program> Chunks(const std::vector<int64_t>& bounds, int64_t message,
                            const std::function<void(Program&, int64_t k)>& write) {
  int64_t longest = 0;
  for (size_t r = 0; r + 1 < bounds.size(); ++r)
    longest = std::max(longest, bounds[r + 1] - bounds[r]);
  std::vector<Program> chunks;
  for (int64_t k = 0; k * message < longest; ++k) write(chunks.emplace_back(), k);
  return chunks;
}

}  // namespace

template <typename T>
std::vector<ShardedBucket> LayOutShards(const Plan& plan, std::span<const ParamInfo<T>> params,
                                        int ranks, ShardCut cut) {
  std::vector<ShardedBucket> buckets;
  for (const Bucket& planned : plan.buckets) {
    ShardedBucket& bucket = buckets.emplace_back();
    bucket.count = planned.count;
    const int64_t begin = At(params, planned.params.front()).arena_offset;
    for (const int p : planned.params)
      bucket.params.push_back({p, At(params, p).arena_offset - begin, At(params, p).count});
    if (cut != ShardCut::kWholeParams) CutEvenly(bucket, ranks, cut);
  }
  if (cut == ShardCut::kWholeParams) GiveToOwners(buckets, ranks);
  return buckets;
}

Shard OwnedPart(const ShardedBucket& bucket, const PlacedParam& param, int rank) {
  const int64_t begin = std::max(At(bucket.bounds, rank), param.offset);
  const int64_t end = std::min(At(bucket.bounds, rank + 1), param.offset + param.count);
  if (begin >= end) return {};
  return {begin - param.offset, end - begin};
}

std::vector<Program> SumAtShards(const std::vector<int64_t>& bounds, int rank, int64_t message) {
  const int ranks = Count(bounds) - 1;
  return Chunks(bounds, message, [&](Program& program, int64_t k) {
    for (int i = 1; i < ranks; ++i) {  // each rank begins with a different owner
      const int owner = (rank + i) % ranks;
      const Range part = MessageOf(bounds, owner, message, k);
      if (part.begin < part.end)
        program.push_back({Kind::kSend, owner, part.begin, part.end, /*label=*/0});
    }
    const Range mine = MessageOf(bounds, rank, message, k);
    if (mine.begin < mine.end)
      program.push_back({Kind::kSum, -1, mine.begin, mine.end, /*label=*/0, {0, 1, ranks}});
  });
}

std::vector<Program> SendToOwners(const std::vector<int64_t>& bounds, int rank, int source,
                                  int64_t message) {
  const int ranks = Count(bounds) - 1;
  if (rank != source && At(bounds, rank) == At(bounds, rank + 1)) return {};
  return Chunks(bounds, message, [&](Program& program, int64_t k) {
    if (rank != source) {
      const Range mine = MessageOf(bounds, rank, message, k);
      const int64_t begin = At(bounds, rank);
      if (mine.begin < mine.end)
        program.push_back(
            {Kind::kReceive, source, mine.begin - begin, mine.end - begin, /*label=*/0});
      return;
    }
    for (int i = 1; i < ranks; ++i) {
      const int owner = (rank + i) % ranks;
      const Range part = MessageOf(bounds, owner, message, k);
      if (part.begin < part.end)
        program.push_back({Kind::kSend, owner, part.begin, part.end, /*label=*/0});
    }
  });
}

std::vector<Program> SpreadFromShards(const std::vector<int64_t>& bounds, int rank,
                                      int64_t message) {
  const int ranks = Count(bounds) - 1;
  return Chunks(bounds, message, [&](Program& program, int64_t k) {
    const Range mine = MessageOf(bounds, rank, message, k);
    for (int i = 1; i < ranks && mine.begin < mine.end; ++i)
      program.push_back({Kind::kSend, (rank + i) % ranks, mine.begin, mine.end, /*label=*/0});
    for (int i = 1; i < ranks; ++i) {
      const int owner = (rank + i) % ranks;
      const Range part = MessageOf(bounds, owner, message, k);
      if (part.begin < part.end)
        program.push_back({Kind::kReceive, owner, part.begin, part.end, /*label=*/0});
    }
  });
}

template std::vector<ShardedBucket> LayOutShards(const Plan&, std::span<const ParamInfo<float>>,
                                                 int, ShardCut);
template std::vector<ShardedBucket> LayOutShards(const Plan&, std::span<const ParamInfo<double>>,
                                                 int, ShardCut);

}  // namespace carafe
