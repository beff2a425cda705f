// Batches of pictures that are dealt record by record: those of Data, ImageData and ParallelData.
#pragma once

#include <memory>

#include "carafe/data/pictures.h"
#include "carafe/data/transform.h"
#include "carafe/layers/batch_layer.h"

namespace carafe {

struct RecordSettings {
  BatchSettings batch;
  bool shuffle = false;         // a new seeded order in each epoch, else file order
  uint32_t rand_skip = 0;       // begin at a seeded position below this one
  bool sizes_may_vary = false;  // from batch to batch
};

template <typename T>
std::unique_ptr<const BatchMaker<T>> MakeRecordBatches(
    const LayerSpec& spec, const RecordSettings& settings, std::unique_ptr<const Pictures> pictures,
    std::unique_ptr<const Transformer> transformer);

}  // namespace carafe
