// The rows of a list of HDF5 files: several datasets side by side, file after file. Files are read
// in blocks of rows, so that they may be larger than memory; a shuffled epoch takes the blocks in
// random order, and the rows of each block in random order.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "carafe/core/shape.h"

namespace carafe {

// What the files hold. Constant after construction, so any number of threads may use it.
class Hdf5Rows {
 public:
  struct Block {
    std::string path;
    int64_t first = 0, rows = 0;  // along axis 0 of every dataset of this file
    int64_t begin = 0;            // the number of rows in all blocks before it
  };
  static constexpr int64_t kBlockValues = int64_t{1} << 24;  // 64 MiB as floats

  // `list` is a text file with one path in each line. Looks into every file; throws DataError where
  // one lacks a dataset, or has other shapes than the others.
  Hdf5Rows(const std::string& list, const std::vector<std::string>& datasets,
           int64_t block_values = kBlockValues);

  int64_t size() const { return size_; }  // rows of all files, at least 1
  const std::vector<std::string>& datasets() const { return datasets_; }
  const Shapes& items() const { return items_; }  // per dataset: the shape of one row
  const std::vector<Block>& blocks() const { return blocks_; }
  int64_t block_values() const { return block_values_; }
  size_t BlockOf(int64_t row) const;  // that holds this row, 0 <= row < size()
  // The row at `position` of a shuffled epoch; a permutation that `key` and `epoch` choose.
  int64_t ShuffledRow(uint64_t key, int64_t epoch, int64_t position) const;

 private:
  // The order of the blocks in one epoch.
  struct Order {
    uint64_t key = 0;
    int64_t epoch = -1;
    std::vector<size_t> blocks;
    std::vector<int64_t> ends;  // the number of rows up to the end of each
  };
  void AddFile(const std::string& path);
  void SetOrder(uint64_t key, int64_t epoch) const;

  const std::vector<std::string> datasets_;
  const int64_t block_values_;
  Shapes items_;
  std::vector<Block> blocks_;
  int64_t size_ = 0;
  mutable std::mutex mutex_;  // guards order_
  mutable Order order_;       // of the epoch that was asked for last
};

// Reads rows; keeps some blocks in memory. Used by one thread.
template <typename T>
class Hdf5Reader {
 public:
  explicit Hdf5Reader(const Hdf5Rows& rows) : rows_(rows) {}  // which must outlive it

  // Row `index`, 0 <= index < size(): a view for each dataset, valid until the next call.
  const std::vector<const T*>& Row(int64_t index);

 private:
  using Values = std::vector<std::vector<T>>;  // per dataset

  const Values& Load(size_t block);

  const Hdf5Rows& rows_;
  std::map<size_t, Values> loaded_;
  std::deque<size_t> oldest_;  // of loaded_, the oldest first
  int64_t loaded_values_ = 0;
  std::vector<const T*> views_;
};

}  // namespace carafe
