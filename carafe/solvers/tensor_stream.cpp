#include "carafe/solvers/tensor_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>
#include <utility>

#include "carafe/base/error.h"

namespace carafe {
namespace {

constexpr std::string_view kHistory = "history/";
constexpr char kFix[] = "use all files of one snapshot; try --snapshot=auto";

}  // namespace

std::string HistoryName(size_t index) { return fmt::format("{}{}", kHistory, index); }

int64_t HistoryIndex(const std::string& name) {
  if (!name.starts_with(kHistory)) return -1;
  int64_t index = -1;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kHistory.size(), end, index);
  return error == std::errc() && stop == end ? index : -1;
}

void TensorSet::Add(std::unique_ptr<TensorSource> source) { sources_.push_back(std::move(source)); }

size_t TensorSet::histories() const {
  std::set<int64_t> found;
  for (const auto& source : sources_) {
    for (const TensorShard& shard : source->shards()) found.insert(HistoryIndex(shard.name));
  }
  found.erase(-1);
  return found.size();
}

std::vector<TensorSet::Part> TensorSet::PartsOf(const std::string& name) const {
  std::vector<Part> parts;
  for (const auto& source : sources_) {
    for (size_t i = 0; i < source->shards().size(); ++i) {
      if (source->shards()[i].name == name) parts.push_back({source.get(), i});
    }
  }
  const std::string file = parts.empty() ? sources_.empty() ? "" : sources_.front()->path()
                                         : parts.front().source->path();
  if (parts.empty()) throw DataError(file, -1, fmt::format("it has no tensor {}", name), kFix);
  std::ranges::sort(parts, {}, [](const Part& part) { return part.shard().first; });
  const Shape& shape = parts.front().shard().shape;
  int64_t next = 0;
  for (const Part& part : parts) {
    const TensorShard& shard = part.shard();
    if (shard.shape != shape) {
      throw DataError(part.source->path(), -1,
                      fmt::format("tensor {} has shape {} here and {} in {}", name,
                                  shard.shape.ToString(), shape.ToString(), file),
                      kFix);
    }
    if (shard.first != next) {
      throw DataError(part.source->path(), -1,
                      fmt::format("a shard of tensor {} starts at element {}, the one before it "
                                  "ends at {}",
                                  name, shard.first, next),
                      kFix);
    }
    next += shard.count;
  }
  if (next != shape.Count()) {
    throw DataError(
        file, -1,
        fmt::format("the shards of tensor {} have {} elements of {}", name, next, shape.Count()),
        kFix);
  }
  return parts;
}

Shape TensorSet::ShapeOf(const std::string& name) const {
  return PartsOf(name).front().shard().shape;
}

std::vector<double> TensorSet::Read(const std::string& name) const {
  const std::vector<Part> parts = PartsOf(name);
  if (parts.size() == 1) return parts[0].source->Read(parts[0].index);
  std::vector<double> values;
  for (const Part& part : parts) {
    const std::vector<double> piece = part.source->Read(part.index);
    values.insert(values.end(), piece.begin(), piece.end());
  }
  return values;
}

}  // namespace carafe
