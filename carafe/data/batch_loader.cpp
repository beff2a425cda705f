#include "carafe/data/batch_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "carafe/base/error.h"
#include "carafe/base/index.h"

namespace carafe {
namespace {

template <typename T>
void CopyValues(const ArrayView& array, T* out) {
  const auto copy = [&](const auto& values) {
    std::ranges::transform(values, out, [](auto value) { return static_cast<T>(value); });
  };
  if (!array.bytes.empty()) return copy(array.bytes);
  if (!array.floats.empty()) return copy(array.floats);
  copy(array.doubles);
}

}  // namespace

Shape WithRows(int64_t rows, const Shape& row) {
  std::vector<int64_t> dims = {rows};
  dims.insert(dims.end(), row.dims().begin(), row.dims().end());
  return Shape(dims);
}

// The records of the rows of one worker in one pass.
template <typename T>
class BatchLoader<T>::RecordOrder {
 public:
  RecordOrder(const BatchLoader& loader, Pass pass, const Replica& replica, int64_t rows)
      : loader_(loader),
        pass_(pass),
        replica_(replica),
        all_rows_(loader.settings_.shard ? replica.GlobalRows(loader.settings_.batch_size) : rows),
        records_(loader.data().size()),
        draws_(MakeRandomKey(pass.seed, loader.layer_, pass.index)) {
    const uint64_t key = MakeRandomKey(pass.seed, loader.layer_, 0).key;
    shuffle_key_ = MixSeed(key, HashName("shuffle"));
    if (const uint32_t skip = loader.settings_.rand_skip; skip > 0) {
      pass_.origin += static_cast<int64_t>(MixSeed(key, HashName("rand_skip")) % skip);
    }
  }

  const RandomKey& draws() const { return draws_; }  // of transforms, too: by slot and element
  int64_t Slot(int64_t row) const { return loader_.sampler_.Slot(replica_, row); }
  int64_t Record(int64_t row) const {
    if (loader_.pipeline_.draw) return loader_.pipeline_.draw(draws_, Slot(row), all_rows_);
    const EpochPosition at = loader_.sampler_.At(pass_, replica_, row, records_);
    if (!loader_.settings_.shuffle) return at.index;
    return loader_.data().ShuffledRecord(shuffle_key_, at.epoch, at.index);
  }

 private:
  const BatchLoader& loader_;
  Pass pass_;
  const Replica& replica_;
  const int64_t all_rows_;
  const int64_t records_;
  const RandomKey draws_;
  uint64_t shuffle_key_ = 0;
};

template <typename T>
BatchLoader<T>::BatchLoader(DataPipeline pipeline, BatchSettings settings, int arrays,
                            std::string layer, SettingsLocation location)
    : pipeline_(std::move(pipeline)),
      settings_(std::move(settings)),
      sampler_{.batch = settings_.batch_size, .shard = settings_.shard},
      layer_(std::move(layer)),
      location_(std::move(location)),
      row_shapes_(data().SampleShapes()) {
  Ensure(arrays <= Count(row_shapes_), "a layer has more tops than its records have arrays");
  row_shapes_.resize(static_cast<size_t>(arrays));
  first_ = row_shapes_[0];
  row_shapes_[0] = OutputShape(first_);
}

template <typename T>
Shape BatchLoader<T>::OutputShape(const Shape& image) const {
  return pipeline_.transform ? pipeline_.transform->OutputShape(image) : image;
}

template <typename T>
int64_t BatchLoader<T>::Rows(const Replica& replica) const {
  const int64_t rows = sampler_.Rows(replica);
  location_.Check(rows > 0, settings_.batch_path,
                  fmt::format("a global batch of {} leaves nothing for worker {} of {}",
                              replica.global_batch, replica.index, replica.count),
                  "use a larger global batch or fewer workers");
  return rows;
}

template <typename T>
void BatchLoader<T>::Load(const Pass& pass, const Replica& replica, Batch<T>* batch) {
  if (reader_ == nullptr) reader_ = data().NewReader();
  const int64_t rows = Rows(replica);
  const RecordOrder order(*this, pass, replica, rows);
  const Transform* const transform = pipeline_.transform.get();
  Shape expected = first_, row_shape = row_shapes_[0];
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t index = order.Record(row);
    const Sample& sample = reader_->Read(index);
    const ArrayView& image = sample.arrays[0];
    if (row == 0) {
      if (settings_.sizes_may_vary && image.shape != expected) {
        expected = image.shape;
        row_shape = OutputShape(expected);
      }
      Resize(rows, row_shape, batch);
    }
    if (image.shape != expected) CheckSize(index, image, expected, row_shape);
    for (size_t a = 0; a < batch->arrays.size(); ++a) {
      T* out = batch->arrays[a].values.data() + row * (a == 0 ? row_shape : row_shapes_[a]).Count();
      if (a == 0 && transform != nullptr) {
        transform->Apply(sample, order.draws(), order.Slot(row), out);
      } else {
        CopyValues(sample.arrays[a], out);
      }
    }
  }
}

// An image of another size may still give rows of the same one (crop, resize).
template <typename T>
void BatchLoader<T>::CheckSize(int64_t index, const ArrayView& image, const Shape& expected,
                               const Shape& row) {
  if (OutputShape(image.shape) == row) return;
  throw DataError(
      data().name(), index,
      fmt::format("{} is {} but the first record{} is {}", data().Describe(index), image.SizeText(),
                  settings_.sizes_may_vary ? " of its batch" : "", ArrayView{expected}.SizeText()),
      "make all images of a data set the same size, or use batch_size: 1");
}

template <typename T>
void BatchLoader<T>::Resize(int64_t rows, const Shape& row, Batch<T>* batch) const {
  batch->arrays.resize(row_shapes_.size());
  for (size_t a = 0; a < batch->arrays.size(); ++a) {
    const Shape shape = WithRows(rows, a == 0 ? row : row_shapes_[a]);
    try {
      batch->arrays[a].values.resize(static_cast<size_t>(shape.Count()));
    } catch (const std::exception&) {  // bad_alloc, length_error
      location_.Fail(settings_.batch_path,
                     fmt::format("there is no memory for a batch of {}", shape.ToString()),
                     "use a smaller batch_size");
    }
    batch->arrays[a].shape = shape;
  }
}

template class BatchLoader<float>;
template class BatchLoader<double>;

}  // namespace carafe
