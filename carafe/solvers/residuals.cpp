#include "carafe/solvers/residuals.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "carafe/base/index.h"

namespace carafe {
namespace {

constexpr std::string_view kPart = "part residual of ", kSum = "sum residual of ";
constexpr int64_t kPiece = 1 << 16;  // elements that are gathered at a time

// By rank: what encodes its gradient.
std::vector<int> SourcesOf(const Group& group) {
  std::vector<std::string> names;
  for (int rank = 0; rank < group.size(); ++rank) names.push_back(group.host(rank));
  const HostLayout hosts(names);
  std::vector<int> sources;
  for (int rank = 0; rank < group.size(); ++rank)
    sources.push_back(hosts.saves_bytes() ? hosts.host_of(rank) : rank);
  return sources;
}

int CountOf(const std::vector<int>& sources) {
  return 1 + *std::max_element(sources.begin(), sources.end());
}

// A state tensor's name without its rank: the same on all ranks.
std::string WithoutRank(const std::string& name, int rank) {
  const std::string end = fmt::format(", rank {}", rank);
  return name.ends_with(end) ? name.substr(0, name.size() - end.size()) : name;
}

std::string PartName(const std::string& what, int source, int sources) {
  return fmt::format("{}, source {} of {}", what, source, sources);
}

// to += the values in `bytes`.
template <typename T>
void AddBytes(const std::string& bytes, T* to) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  for (size_t i = 0; i < values.size(); ++i) to[i] += values[i];
}

template <typename T>
void AddTo(std::vector<T>& sum, const std::vector<T>& values) {
  for (size_t i = 0; i < std::min(sum.size(), values.size()); ++i) sum[i] += values[i];
}

}  // namespace

template <typename T>
bool Residuals<T>::IsName(const std::string& tensor) {
  return tensor.starts_with(kPart) || tensor.starts_with(kSum);
}

template <typename T>
void Residuals<T>::Set(Tensors tensors, int workers) {
  tensors_ = std::move(tensors);
  workers_ = std::max(workers, 1);
}

// Elements that a rank does not encode are 0 there, so the sums below are exact.
template <typename T>
void Residuals<T>::Gather(Exchange<T>& exchange, Group& group, int workers) {
  Set({}, workers);
  if (group.size() == 1) return;
  const std::vector<int> sources = SourcesOf(group);
  for (const StateTensor<T>& tensor : exchange.state()) {
    const std::string what = WithoutRank(tensor.name, group.rank());
    if (!IsName(what)) continue;
    for (int64_t begin = 0; begin < tensor.count; begin += kPiece) {
      const auto count = static_cast<size_t>(std::min(kPiece, tensor.count - begin));
      const std::string mine(reinterpret_cast<const char*>(tensor.data + begin), count * sizeof(T));
      const std::vector<std::string> all = group.AllGather(mine, "the residuals of " + what);
      for (int rank = 0; group.rank() == 0 && rank < group.size(); ++rank) {
        const bool of_part = what.starts_with(kPart);
        std::vector<T>& target =
            tensors_[of_part ? PartName(what, At(sources, rank), CountOf(sources)) : what];
        target.resize(static_cast<size_t>(tensor.count));
        AddBytes(At(all, rank), target.data() + begin);
      }
    }
  }
}

template <typename T>
void Residuals<T>::Restore(Exchange<T>& exchange, Group& group, int workers) {
  if (group.size() == 1) return;
  const std::vector<int> sources = SourcesOf(group);
  int stored = StoredSources();
  group.Broadcast(&stored, sizeof stored, 0, "the number of residuals");
  const T scale = static_cast<T>(workers) / static_cast<T>(workers_);
  const bool root = group.rank() == 0;
  for (const StateTensor<T>& tensor : exchange.state()) {
    const std::string what = WithoutRank(tensor.name, group.rank());
    if (!IsName(what)) continue;
    const auto count = static_cast<size_t>(tensor.count);
    std::fill_n(tensor.data, count, T(0));
    if (stored == 0 || count == 0) continue;
    const auto share = [&](std::vector<T> values, bool is_mine) {
      values.resize(count);  // on other ranks than 0
      for (T& value : values) value *= scale;
      group.Broadcast(values.data(), count * sizeof(T), 0, "the residuals of " + what);
      if (is_mine) std::copy(values.begin(), values.end(), tensor.data);
    };
    if (what.starts_with(kSum)) {
      share(root ? ForSums(what, tensor.count, CountOf(sources)) : std::vector<T>(), true);
      continue;
    }
    for (int s = 0; s < CountOf(sources); ++s)
      share(root ? ForSource(what, tensor.count, s, CountOf(sources)) : std::vector<T>(),
            At(sources, group.rank()) == s);
  }
  tensors_.clear();
}

template <typename T>
int Residuals<T>::StoredSources() const {
  int sources = 0;
  for (const auto& [name, values] : tensors_) {
    const size_t at = name.rfind(" of ");
    if (name.starts_with(kPart)) sources = std::max(sources, std::atoi(name.c_str() + at + 4));
  }
  return sources;
}

// What the parts of a source owe. All of it goes to source 0 if the sources are others.
template <typename T>
std::vector<T> Residuals<T>::ForSource(const std::string& what, int64_t count, int source,
                                       int sources) const {
  std::vector<T> sum(static_cast<size_t>(count));
  const auto add = [&](const std::string& name) {
    if (const auto found = tensors_.find(name); found != tensors_.end()) AddTo(sum, found->second);
  };
  const int stored = StoredSources();
  if (stored == sources) {
    add(PartName(what, source, sources));
  } else if (source == 0) {
    for (int s = 0; s < stored; ++s) add(PartName(what, s, stored));
    add(std::string(kSum) + what.substr(kPart.size()));
  }
  return sum;
}

template <typename T>
std::vector<T> Residuals<T>::ForSums(const std::string& what, int64_t count, int sources) const {
  std::vector<T> sum(static_cast<size_t>(count));
  const auto found = tensors_.find(what);
  if (StoredSources() == sources && found != tensors_.end()) AddTo(sum, found->second);
  return sum;
}

template class Residuals<float>;
template class Residuals<double>;

}  // namespace carafe
