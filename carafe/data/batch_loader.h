// Fills batches: chooses the records, reads them and writes them, transformed, row by row.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "carafe/base/random.h"
#include "carafe/core/run_context.h"
#include "carafe/core/shape.h"
#include "carafe/data/dataset.h"
#include "carafe/data/sampler.h"
#include "carafe/data/settings_location.h"
#include "carafe/data/transform.h"

namespace carafe {

// What a data layer needs for one Forward: one array per top.
template <typename T>
struct Batch {
  struct Array {
    Shape shape;  // (rows, ...)
    std::vector<T> values;
  };
  std::vector<Array> arrays;
};

Shape WithRows(int64_t rows, const Shape& row);  // (rows, ...)

// Where batches come from.
struct DataPipeline {
  std::unique_ptr<const DataSet> data;
  std::unique_ptr<const Transform> transform = nullptr;  // of array 0; null: arrays are copied
  // Chooses the record of a slot at random, with `rows` slots in all workers together; null: the
  // records follow each other in file order, or shuffled.
  std::function<int64_t(const RandomKey& key, int64_t slot, int64_t rows)> draw = nullptr;
};

struct BatchSettings {
  int64_t batch_size = 0;
  std::string batch_path;       // of batch_size in the layer's settings, for errors
  uint32_t prefetch = 4;        // batches that are loaded ahead
  bool shard = true;            // records are divided among the workers
  bool shuffle = false;         // another order in each epoch, chosen by the seed
  uint32_t rand_skip = 0;       // begin at a position below this one, chosen by the seed
  bool sizes_may_vary = false;  // from batch to batch: images keep their size
};

// Load is called by one thread at a time; the other functions by any.
template <typename T>
class BatchLoader {
 public:
  // `arrays` is how many arrays of a record are wanted, from the first on. `layer` names the random
  // draws. Throws ConfigError if the transform does not fit the records.
  BatchLoader(DataPipeline pipeline, BatchSettings settings, int arrays, std::string layer,
              SettingsLocation location);

  const DataSet& data() const { return *pipeline_.data; }
  // For each array the shape of one row. Batches may have another one if sizes_may_vary.
  const Shapes& row_shapes() const { return row_shapes_; }
  // The rows of this worker in each pass; ConfigError if there is none.
  int64_t Rows(const Replica& replica) const;
  // Fills `batch`, which may hold an old one.
  void Load(const Pass& pass, const Replica& replica, Batch<T>* batch);

 private:
  class RecordOrder;
  Shape OutputShape(const Shape& image) const;
  void CheckSize(int64_t index, const ArrayView& image, const Shape& expected, const Shape& row);
  void Resize(int64_t rows, const Shape& row, Batch<T>* batch) const;

  const DataPipeline pipeline_;
  const BatchSettings settings_;
  const Sampler sampler_;
  const std::string layer_;
  const SettingsLocation location_;
  Shape first_;  // of array 0 of record 0, before the transform
  Shapes row_shapes_;
  std::unique_ptr<RecordReader> reader_;  // made by the first Load
};

}  // namespace carafe
