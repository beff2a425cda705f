#include "carafe/exchange/scheme.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "carafe/base/error.h"

namespace carafe {
namespace {

// About half of what a transport takes: parts of a chunk that cannot be cut evenly are an element
// longer.
constexpr size_t kLongestMessage = size_t{1} << 29;
static_assert(kLongestMessage < Transport::kMaxBytes);

template <typename T>
std::vector<Journey<T>> JourneysOf(const SchemeKind& kind, const SchemeSettings& settings, int rank,
                                   int size, const std::vector<BucketPlace<T>>& buckets) {
  SchemeSettings with_size = settings;
  if (with_size.message_bytes == 0) with_size.message_bytes = kFirstMessageBytes;
  with_size.message_bytes = std::min(with_size.message_bytes, kLongestMessage);
  if (with_size.local == 0) with_size.local = 1;
  std::vector<Journey<T>> journeys;
  const auto bytes = [](int64_t count) { return count * static_cast<int64_t>(sizeof(T)); };
  for (const BucketPlace<T>& b : buckets)
    journeys.push_back({.data = b.gradient,
                        .count = b.count,
                        .priority = b.priority,
                        .chunks = kind.sum(with_size, rank, size, b.count, bytes(b.count)),
                        .others = b.other_gradients});
  if (!kind.root_updates) return journeys;
  for (const BucketPlace<T>& b : buckets)
    journeys.push_back({.data = b.value,
                        .count = b.count,
                        .priority = b.priority,
                        .chunks = kind.spread(with_size, rank, size, b.count, bytes(b.count))});
  return journeys;
}

}  // namespace

const SchemeKind& FindScheme(const std::string& name) {
  const SchemeRegistry& registry = SchemeRegistry::Instance();
  if (const SchemeKind* kind = registry.Find(name)) return *kind;
  throw ConfigError(
      fmt::format("there is no exchange \"{}\"", name),
      fmt::format("take one of those that are built: {}", fmt::join(registry.Names(), ", ")));
}

int LocalRanks(const std::vector<std::string>& hosts) {
  size_t local = 1;
  while (local < hosts.size() && hosts[local] == hosts[0]) ++local;
  if (!std::has_single_bit(local) || hosts.size() % local != 0) return 1;
  std::set<std::string> seen;
  for (size_t r = 0; r < hosts.size(); ++r) {
    if (r % local == 0 && !seen.insert(hosts[r]).second) return 1;
    if (hosts[r] != hosts[r / local * local]) return 1;
  }
  return static_cast<int>(local);
}

std::string WhyFlat(const std::vector<std::string>& hosts) {
  std::map<std::string, unsigned> ranks;  // of each host
  for (const std::string& host : hosts) ++ranks[host];
  const auto [fewest, most] = std::minmax_element(
      ranks.begin(), ranks.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const unsigned local = most->second;
  if (ranks.size() == 1 || local == 1 || LocalRanks(hosts) > 1) return "";
  if (fewest->second != local)
    return fmt::format("hosts have {} to {} ranks: start as many on each, a power of two",
                       fewest->second, local);
  if (!std::has_single_bit(local))
    return fmt::format("hosts have {} ranks each, not a power of two: start {} or {} on each",
                       local, std::bit_floor(local), std::bit_ceil(local));
  return "ranks of one host are not neighbours: use mpirun --map-by slot or srun -m block";
}

template <typename T>
Agreement<T>::Agreement(const SchemeKind& kind, const SchemeSettings& settings, int rank, int size,
                        const std::vector<BucketPlace<T>>& buckets, const ChannelTags& tags)
    : root_updates_(kind.root_updates),
      rank_(rank),
      buckets_(buckets),
      halves_(buckets.size()),
      engine_(rank, size, JourneysOf(kind, settings, rank, size, buckets), tags) {}

template <typename T>
void Agreement<T>::OnGradients(int bucket) {
  engine_.OnReady(bucket);
  if (!updates()) engine_.OnReady(static_cast<int>(buckets_.size()) + bucket);
}

template <typename T>
void Agreement<T>::OnUpdated(int bucket) {
  if (root_updates_) {
    engine_.OnReady(static_cast<int>(buckets_.size()) + bucket);
  } else {
    values_.push_back(bucket);
  }
}

template <typename T>
bool Agreement<T>::Poll(Transport& transport) {
  const bool moved = engine_.Poll(transport);
  const int count = static_cast<int>(buckets_.size());
  for (int journey : engine_.TakeComplete()) {
    const int bucket = journey % count;
    if (updates()) {
      (journey < count ? sums_ : values_).push_back(bucket);
      continue;
    }
    const BucketPlace<T>& place = buckets_[static_cast<size_t>(bucket)];
    if (journey < count && place.gradient)
      std::fill(place.gradient, place.gradient + place.count, T(0));
    if (++halves_[static_cast<size_t>(bucket)] < 2) continue;
    halves_[static_cast<size_t>(bucket)] = 0;
    values_.push_back(bucket);
  }
  return moved;
}

template class Agreement<float>;
template class Agreement<double>;

}  // namespace carafe
