#include "carafe/exchange/scheme.h"

#include <fmt/format.h>

#include <algorithm>

#include "carafe/base/error.h"
#include "carafe/exchange/factor_program.h"

namespace carafe {
namespace {

// About half of the longest message of a transport: segments of a chunk that is not divided evenly
// are an element longer.
constexpr size_t kLongestMessage = size_t{1} << 29;
static_assert(kLongestMessage < Transport::kMaxBytes);

}  // namespace

const Scheme& FindScheme(const std::string& name) {
  const Scheme* scheme = SchemeRegistry::Instance().Find(name);
  Ensure(scheme != nullptr, "there is no such synchronous scheme");
  return *scheme;
}

std::vector<Transfer> TransfersOf(const Scheme& scheme, const SchemeSettings& settings, int rank,
                                  int size, const ElementType& elements,
                                  const std::vector<BucketMemory>& buckets) {
  SchemeSettings known = settings;
  if (known.message_bytes == 0) known.message_bytes = kFirstMessageBytes;
  known.message_bytes = std::min(known.message_bytes, kLongestMessage);
  const auto is_encoded = [](const BucketMemory& bucket) { return bucket.codec != nullptr; };
  if (settings.timeout >= 0 && std::any_of(buckets.begin(), buckets.end(), is_encoded))
    throw ConfigError("--exchange_timeout leaves late gradients out, which cannot be encoded",
                      "remove --exchange_timeout, or use --wire=fp32");
  const auto programs = [&](const Scheme::Writer& writer, const BucketMemory& bucket) {
    if (!writer)
      throw ConfigError(fmt::format("--exchange={} cannot encode gradients", scheme.name),
                        "use --exchange=allreduce, or --wire=fp32");
    return writer(known, rank, size, bucket.count,
                  bucket.count * static_cast<int64_t>(elements.bytes));
  };
  std::vector<Transfer> transfers;
  for (const BucketMemory& bucket : buckets) {
    if (!bucket.parts.empty()) {
      const auto message = static_cast<int64_t>(known.message_bytes / elements.bytes);
      transfers.push_back(
          {.data = bucket.gradient,
           .count = bucket.count,
           .priority = bucket.priority,
           .chunks = GatherParts(rank, known.hosts.by_host(), bucket.parts, message)});
      continue;
    }
    transfers.push_back({.data = bucket.gradient,
                         .count = bucket.count,
                         .priority = bucket.priority,
                         .chunks = programs(bucket.codec ? scheme.encoded_sum : scheme.sum, bucket),
                         .other_parts = bucket.other_gradients,
                         .clear_when_complete = !scheme.UpdatesOn(rank),
                         .codec = bucket.codec,
                         .part_residual = bucket.part_residual,
                         .sum_residual = bucket.sum_residual});
  }
  if (!scheme.root_updates) return transfers;
  for (const BucketMemory& bucket : buckets)
    transfers.push_back({.data = bucket.value,
                         .count = bucket.count,
                         .priority = bucket.priority,
                         .chunks = programs(scheme.spread, bucket)});
  return transfers;
}

}  // namespace carafe
