// The base of data layers that read files: tops are filled with batches of records, which a thread
// loads ahead (data/prefetch.h). A new data layer is one file: settings, and a function that opens
// a DataPipeline (docs/data.md).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "carafe/data/batch_loader.h"
#include "carafe/data/prefetch.h"
#include "carafe/layers/data_layer.h"
#include "carafe/layers/layer.h"

namespace carafe {

// Where the settings of a layer are, for errors found in data/.
SettingsLocation LocationOf(const LayerSpec& spec);

// Warns of fields of `message` (data_param or the like) that belong in transform_param and have no
// effect where they are.
void WarnOfOldTransforms(const LayerSpec& spec, const std::string& message);

// Top i gets array i of every record, as (rows, ...): the image and the label, or the arrays of a
// row. Used by the thread that runs the net.
template <typename T>
class BatchLayer : public Layer<T>, public DataLayer {
 public:
  // Called once, when shapes are first needed; no thread starts before the first batch is needed.
  using Open = std::function<DataPipeline()>;
  BatchLayer(const LayerSpec& spec, BatchSettings settings, Open open);

  Shapes InferShapes(const Shapes& bottom) const final;
  void Reshape(RunContext& run, Blobs<T> bottom, Blobs<T> top) final;
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) final;
  void Backward(RunContext&, Blobs<T>, const std::vector<bool>&, Blobs<T>) final {}
  const DataSet& data_set() const final { return loader().data(); }
  double data_wait_seconds() const final {
    return prefetcher_ == nullptr ? 0 : prefetcher_->wait_seconds();
  }

 private:
  BatchLoader<T>& loader() const;
  const Batch<T>& Take(RunContext& run);

  const BatchSettings settings_;
  const Open open_;
  mutable std::unique_ptr<BatchLoader<T>> loader_;
  const Batch<T>* taken_ = nullptr;  // the prefetcher's; null once Forward has copied it
  Pass taken_pass_;
  Replica taken_replica_;
  // Last: its thread uses the above. It must not use members of a derived class.
  std::unique_ptr<Prefetcher<T>> prefetcher_;
};

}  // namespace carafe
