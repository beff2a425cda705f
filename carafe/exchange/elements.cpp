#include "carafe/exchange/elements.h"

#include <vector>

#include "carafe/core/tree_sum.h"

namespace carafe {
namespace {

template <typename T>
std::vector<const T*> Typed(std::span<const void* const> parts) {
  std::vector<const T*> typed;
  typed.reserve(parts.size());
  for (const void* part : parts) typed.push_back(static_cast<const T*>(part));
  return typed;
}

template <typename T>
void Sum(std::span<const void* const> parts, int64_t count, void* y) {
  TreeSum<T>(Typed<T>(parts), count, static_cast<T*>(y));
}

template <typename T>
void SumOfTrees(std::span<const void* const> parts, std::span<const int> sizes, int64_t count,
                void* y) {
  TreeSumOfTrees<T>(Typed<T>(parts), sizes, count, static_cast<T*>(y));
}

template <typename T>
void Add(const void* x, int64_t count, void* y) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(y);
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

template <typename T>
void Scale(int64_t numerator, int64_t denominator, int64_t count, void* y) {
  const T factor = static_cast<T>(numerator) / static_cast<T>(denominator);
  T* to = static_cast<T*>(y);
  for (int64_t i = 0; i < count; ++i) to[i] *= factor;
}

}  // namespace

template <typename T>
const ElementType& ElementsOf() {
  static constexpr ElementType kType{sizeof(T), Sum<T>, Add<T>, Scale<T>, SumOfTrees<T>};
  return kType;
}

template const ElementType& ElementsOf<float>();
template const ElementType& ElementsOf<double>();

}  // namespace carafe
