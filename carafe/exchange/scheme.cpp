#include "carafe/exchange/scheme.h"

#include <fmt/format.h>

#include "carafe/base/error.h"

namespace carafe {
namespace {

template <typename T>
std::vector<Journey<T>> JourneysOf(const SchemeKind& kind, const SchemeSettings& settings, int rank,
                                   int size, const std::vector<BucketPlace<T>>& buckets) {
  std::vector<Journey<T>> journeys;
  const auto bytes = [](int64_t count) { return count * static_cast<int64_t>(sizeof(T)); };
  for (const BucketPlace<T>& b : buckets)
    journeys.push_back({.data = b.gradient,
                        .count = b.count,
                        .priority = b.priority,
                        .chunks = kind.sum(settings, rank, size, b.count, bytes(b.count)),
                        .others = b.other_gradients});
  if (!kind.root_updates) return journeys;
  for (const BucketPlace<T>& b : buckets)
    journeys.push_back({.data = b.value,
                        .count = b.count,
                        .priority = b.priority,
                        .chunks = kind.spread(settings, rank, size, b.count, bytes(b.count))});
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

template <typename T>
Agreement<T>::Agreement(const SchemeKind& kind, const SchemeSettings& settings, int rank, int size,
                        const std::vector<BucketPlace<T>>& buckets, int first_tag)
    : root_updates_(kind.root_updates),
      rank_(rank),
      buckets_(static_cast<int>(buckets.size())),
      engine_(rank, size, JourneysOf(kind, settings, rank, size, buckets), first_tag) {}

template <typename T>
void Agreement<T>::OnGradients(int bucket) {
  engine_.OnReady(bucket);
  if (!updates()) engine_.OnReady(buckets_ + bucket);
}

template <typename T>
void Agreement<T>::OnUpdated(int bucket) {
  if (root_updates_) {
    engine_.OnReady(buckets_ + bucket);
  } else {
    values_.push_back(bucket);
  }
}

template <typename T>
bool Agreement<T>::Poll(Transport& transport) {
  const bool moved = engine_.Poll(transport);
  for (int journey : engine_.TakeComplete()) {
    if (journey >= buckets_) {
      values_.push_back(journey - buckets_);
    } else if (updates()) {
      sums_.push_back(journey);
    }
  }
  return moved;
}

template class Agreement<float>;
template class Agreement<double>;

}  // namespace carafe
