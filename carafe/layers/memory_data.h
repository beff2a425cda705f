// Arrays of the calling program as data and labels, from C++ or Python.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "carafe/data/dataset.h"
#include "carafe/data/transform.h"
#include "carafe/layers/layer.h"

namespace carafe {

// Tops: data (batch, channels, height, width) and labels (batch, 1, 1, 1). Every Forward takes the
// next batch; after the last comes the first again. Found in a net by
//   dynamic_cast<MemoryData<float>*>(net.layers()[0].get())
// Rows are not divided among the workers: each gets the data that were given to its net.
template <typename T>
class MemoryData final : public Layer<T> {
 public:
  explicit MemoryData(const LayerSpec& spec);

  // `rows` rows of data, channels * height * width values each, and one label for each row; used as
  // they are, without transform_param. The arrays stay the caller's and must live until they are
  // replaced. Throws ConfigError unless rows is a positive multiple of the batch size.
  void Reset(const T* data, const T* labels, int64_t rows);
  // Images, which are transformed (transform_param) again in every pass; copied. Throws ConfigError
  // for a number that is no multiple of the batch size, or while images that were added before have
  // not all been used; DataError for an image that does not fit.
  void AddDatums(std::span<const Datum> datums);
  // Starts again from the first row; data that are no multiple of `batch` are dropped. Throws
  // ConfigError while added images have not all been used.
  void SetBatchSize(int64_t batch);

  int64_t batch_size() const { return batch_; }
  int64_t channels() const { return param_.channels(); }
  int64_t height() const { return param_.height(); }
  int64_t width() const { return param_.width(); }

  Shapes InferShapes(const Shapes& bottom) const override;
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override;
  void Backward(RunContext&, Blobs<T>, const std::vector<bool>&, Blobs<T>) override {}
  bool RewindForward(Stream& stream, int passes) override;

 private:
  int64_t RowCount() const { return channels() * height() * width(); }
  void CheckRows(int64_t rows) const;
  void CheckUsed(const char* what) const;
  void TransformBatch(RunContext& run);

  const MemoryDataParameter param_;
  const std::unique_ptr<const Transform> transform_;
  int64_t batch_ = 0;
  int64_t rows_ = 0;  // 0: nothing was given yet
  int64_t next_ = 0;  // the first row of the next batch
  bool unused_ = false;
  const T* data_ = nullptr;  // the caller's; null while added images are used
  const T* labels_ = nullptr;
  std::unique_ptr<const DataSet> images_;     // that were added; null while arrays are used
  std::unique_ptr<RecordReader> reader_;      // of images_
  std::vector<T> batch_data_, batch_labels_;  // of images
};

}  // namespace carafe
