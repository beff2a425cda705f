#include "carafe/data/hdf5_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "carafe/base/error.h"
#include "carafe/base/file.h"
#include "carafe/base/index.h"
#include "carafe/base/random.h"
#include "carafe/data/hdf5_file.h"
#include "carafe/data/sampler.h"

namespace carafe {
namespace {

bool IsFile(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

// One path per line; a line that is no file but has spaces is taken as several, as in the original.
std::vector<std::string> ReadList(const std::string& list) {
  constexpr char kSpaces[] = " \t\r\v\f";
  std::istringstream text(ReadFile(list));
  std::vector<std::string> paths;
  for (std::string line; std::getline(text, line);) {
    const size_t begin = line.find_first_not_of(kSpaces);
    if (begin == std::string::npos) continue;
    line = line.substr(begin, line.find_last_not_of(kSpaces) + 1 - begin);
    if (line.find_first_of(kSpaces) == std::string::npos || IsFile(line)) {
      paths.push_back(line);
      continue;
    }
    std::istringstream parts(line);
    for (std::string part; parts >> part;) paths.push_back(part);
  }
  if (paths.empty()) {
    throw DataError(list, -1, "the list names no files",
                    "write the path of an HDF5 file in each line");
  }
  return paths;
}

Shape WithoutRows(const Shape& shape) { return Shape(shape.dims().subspan(1)); }

}  // namespace

Hdf5Rows::Hdf5Rows(const std::string& list, const std::vector<std::string>& datasets,
                   int64_t block_values)
    : datasets_(datasets), block_values_(block_values) {
  for (const std::string& path : ReadList(list)) AddFile(path);
  if (size_ == 0) {
    throw DataError(list, -1, "the files of this list have no rows", "list files with data");
  }
}

void Hdf5Rows::AddFile(const std::string& path) {
  const Hdf5File file(path);
  Shapes items;
  int64_t rows = 0, row_values = 0;
  for (const std::string& name : datasets_) {
    const Shape shape = file.DatasetShape(name);
    const std::string dataset = fmt::format("dataset \"{}\" ", name);
    if (shape.rank() == 0) {
      throw DataError(path, -1, dataset + "is a single number; it needs rows",
                      "store an array whose first axis counts the rows");
    }
    if (items.empty()) rows = shape[0];
    if (shape[0] != rows) {
      throw DataError(
          path, -1,
          fmt::format("{}has {} rows, but \"{}\" has {}", dataset, shape[0], datasets_[0], rows),
          "store the same number of rows in all datasets of a file");
    }
    items.push_back(WithoutRows(shape));
    file.CheckHolds(name, rows > 0 ? items.back().Count() : 0);
    row_values += items.back().Count();
    if (!items_.empty() && items_[items.size() - 1] != items.back()) {
      throw DataError(
          path, -1,
          fmt::format("{}has rows of shape {}, but {} has {}", dataset, items.back().ToString(),
                      blocks_.empty() ? "another file" : blocks_[0].path,
                      items_[items.size() - 1].ToString()),
          "store rows of one shape in all files of the list");
    }
  }
  items_ = items;
  const int64_t step = std::max<int64_t>(1, block_values_ / std::max<int64_t>(1, row_values));
  for (int64_t first = 0; first < rows; first += step) {
    blocks_.push_back({path, first, std::min(step, rows - first), size_ + first});
  }
  size_ += rows;
}

size_t Hdf5Rows::BlockOf(int64_t row) const {
  const auto after = std::ranges::upper_bound(blocks_, row, {}, &Block::begin);
  return static_cast<size_t>(after - blocks_.begin()) - 1;
}

void Hdf5Rows::SetOrder(uint64_t key, int64_t epoch) const {
  if (order_.key == key && order_.epoch == epoch) return;
  const auto count = static_cast<int64_t>(blocks_.size());
  order_ = {key, epoch, {}, {}};
  int64_t end = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto block = static_cast<size_t>(ShuffledIndex(key, epoch, count, i));
    order_.blocks.push_back(block);
    order_.ends.push_back(end += blocks_[block].rows);
  }
}

int64_t Hdf5Rows::ShuffledRow(uint64_t key, int64_t epoch, int64_t position) const {
  const std::lock_guard lock(mutex_);
  SetOrder(key, epoch);
  const auto at = std::ranges::upper_bound(order_.ends, position) - order_.ends.begin();
  const size_t block = At(order_.blocks, at);
  const int64_t rows = blocks_[block].rows;
  const int64_t row = position - (At(order_.ends, at) - rows);
  return blocks_[block].begin + ShuffledIndex(MixSeed(key, block), epoch, rows, row);
}

template <typename T>
const typename Hdf5Reader<T>::Values& Hdf5Reader<T>::Load(size_t block) {
  if (const auto found = loaded_.find(block); found != loaded_.end()) return found->second;
  const Hdf5Rows::Block& from = rows_.blocks()[block];
  const Hdf5File file(from.path);
  int64_t count = 0;
  for (const Shape& item : rows_.items()) count += item.Count() * from.rows;
  while (!oldest_.empty() && loaded_values_ + count > 2 * rows_.block_values()) {
    const auto old = loaded_.find(oldest_.front());
    for (const std::vector<T>& values : old->second) {
      loaded_values_ -= static_cast<int64_t>(values.size());
    }
    loaded_.erase(old);
    oldest_.pop_front();
  }
  Values all;
  for (size_t d = 0; d < rows_.datasets().size(); ++d) {
    const std::string& name = rows_.datasets()[d];
    const Shape shape = file.DatasetShape(name);
    if (shape.rank() == 0 || WithoutRows(shape) != rows_.items()[d] ||
        shape[0] < from.first + from.rows) {
      throw DataError(from.path, -1,
                      fmt::format("dataset \"{}\" is not what it was when the net was made", name),
                      "do not write to files that are being read");
    }
    std::vector<T> values;
    try {
      values.resize(static_cast<size_t>(shape.Count(1) * from.rows));
    } catch (const std::exception&) {  // bad_alloc, length_error
      throw DataError(
          from.path, -1,
          fmt::format("there is no memory for {} rows of dataset \"{}\"", from.rows, name),
          "use smaller rows, or a machine with more memory");
    }
    file.ReadRows<T>(name, from.first, from.rows, values);
    all.push_back(std::move(values));
  }
  loaded_values_ += count;
  oldest_.push_back(block);
  return loaded_.emplace(block, std::move(all)).first->second;
}

template <typename T>
const std::vector<const T*>& Hdf5Reader<T>::Row(int64_t index) {
  const size_t block = rows_.BlockOf(index);
  const int64_t row = index - rows_.blocks()[block].begin;
  const Values& values = Load(block);
  views_.clear();
  for (size_t d = 0; d < values.size(); ++d) {
    views_.push_back(values[d].data() + row * rows_.items()[d].Count());
  }
  return views_;
}

template class Hdf5Reader<float>;
template class Hdf5Reader<double>;

}  // namespace carafe
