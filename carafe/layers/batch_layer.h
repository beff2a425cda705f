// What the data layers share that give pictures and labels: tops (rows, channels, height, width)
// and (rows), filled with batches that a thread makes ahead (data/prefetch.h).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "carafe/data/dealer.h"
#include "carafe/data/owner.h"
#include "carafe/data/prefetch.h"
#include "carafe/layers/layer.h"

namespace carafe {

// Makes the batches of one layer. Constant after construction: the prefetching thread and the net
// use it at the same time.
template <typename T>
class BatchMaker {
 public:
  virtual ~BatchMaker() = default;
  virtual Shape item() const = 0;  // (channels, height, width) of one row
  // Whether a batch may have rows of another size than item(): then its size is known only with it.
  virtual bool sizes_may_vary() const { return false; }
  // Fills `batch`, which may hold an old one. In the prefetcher's thread.
  virtual void Make(const Pass& pass, const Replica& replica, int64_t rows,
                    Batch<T>* batch) const = 0;
};

struct BatchSettings {
  int64_t batch_size = 0;
  std::string batch_path;  // of batch_size in the layer's settings, for errors
  uint32_t prefetch = 4;   // batches made ahead
  bool deal = true;        // records are dealt over the workers
};

// Whose settings these are, for errors found in data/.
SettingsOwner OwnerOf(const LayerSpec& spec);

// Makes room for a batch; ConfigError at `path` where there is no memory.
template <typename T>
void ResizeBatch(const LayerSpec& spec, const std::string& path, const Shape& shape,
                 Batch<T>* batch);

// Warns of fields of `message` (data_param or the like) that belong in transform_param and have no
// effect where they are.
void WarnOfOldTransforms(const LayerSpec& spec, const std::string& message);

template <typename T>
class BatchLayer : public Layer<T> {
 public:
  // Called once, at the first question for shapes; no thread starts before a batch is asked for.
  using Open = std::function<std::unique_ptr<const BatchMaker<T>>()>;
  BatchLayer(const LayerSpec& spec, BatchSettings settings, Open open);

  Shapes InferShapes(const Shapes& bottom) const final;
  void Reshape(RunContext& run, Blobs<T> bottom, Blobs<T> top) final;
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) final;
  void Backward(RunContext&, Blobs<T>, const std::vector<bool>&, Blobs<T>) final {}

 private:
  const BatchMaker<T>& maker() const;
  Shapes TopShapes(const Shape& data) const;
  int64_t Rows(const Replica& replica) const;
  const Batch<T>& Take(RunContext& run);

  const BatchSettings settings_;
  const Open open_;
  mutable std::unique_ptr<const BatchMaker<T>> maker_;
  const Batch<T>* taken_ = nullptr;  // the prefetcher's; null once Forward has copied it
  Pass taken_pass_;
  Replica taken_replica_;
  // Last: its thread uses the above. It must not use what a class derived from this one adds.
  std::unique_ptr<Prefetcher<T>> prefetcher_;
};

}  // namespace carafe
