#include "carafe/layers/memory_data.h"

#include <fmt/format.h>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/base/log.h"
#include "carafe/data/datasets.h"
#include "carafe/layers/batch_layer.h"

namespace carafe {
namespace {

// Messages in memory as a database, so that they are read like the records of a file.
class DatumsInMemory final : public Database {
 public:
  DatumsInMemory(std::string name, std::span<const Datum> datums) : name_(std::move(name)) {
    for (const Datum& datum : datums) values_.push_back(datum.SerializeAsString());
  }
  const std::string& name() const override { return name_; }
  int64_t size() const override { return static_cast<int64_t>(values_.size()); }
  Record Read(int64_t index) const override { return {"", At(values_, index)}; }

 private:
  const std::string name_;
  std::vector<std::string> values_;
};

}  // namespace

template <typename T>
MemoryData<T>::MemoryData(const LayerSpec& spec)
    : Layer<T>(spec),
      param_(spec.param().memory_data_param()),
      transform_(NewTransform(spec.param().transform_param(), spec.phase(), LocationOf(spec))),
      batch_(param_.batch_size()) {
  const std::pair<const char*, uint32_t> sizes[] = {{"batch_size", param_.batch_size()},
                                                    {"channels", param_.channels()},
                                                    {"height", param_.height()},
                                                    {"width", param_.width()}};
  for (const auto& [name, size] : sizes) {
    spec.Check(size > 0, fmt::format("memory_data_param.{}", name),
               fmt::format("{} is 0 or missing", name),
               "give batch_size, channels, height and width, each 1 or more");
  }
}

template <typename T>
Shapes MemoryData<T>::InferShapes(const Shapes& /*bottom*/) const {
  return {{batch_, channels(), height(), width()}, {batch_, 1, 1, 1}};
}

template <typename T>
void MemoryData<T>::CheckRows(int64_t rows) const {
  this->spec().Check(rows > 0 && rows % batch_ == 0, "memory_data_param.batch_size",
                     fmt::format("{} rows are no multiple of the batch size {}", rows, batch_),
                     "give whole batches, or choose another batch_size");
}

template <typename T>
void MemoryData<T>::CheckUsed(const char* what) const {
  this->spec().Check(!unused_, "memory_data_param",
                     fmt::format("{} before the images added last have all been used", what),
                     "run a forward pass for each of their batches first");
}

template <typename T>
void MemoryData<T>::Reset(const T* data, const T* labels, int64_t rows) {
  CheckRows(rows);
  Ensure(data != nullptr && labels != nullptr, "MemoryData::Reset needs data and labels");
  if (this->spec().param().has_transform_param()) {
    LogWarning("{}: transform_param has no effect on arrays, only on images that are added",
               LocationOf(this->spec()).title);
  }
  reader_.reset();
  images_.reset();
  data_ = data;
  labels_ = labels;
  rows_ = rows;
  next_ = 0;
  unused_ = false;
}

template <typename T>
void MemoryData<T>::AddDatums(std::span<const Datum> datums) {
  CheckUsed("images are added");
  CheckRows(static_cast<int64_t>(datums.size()));
  auto images =
      NewDatabaseSet(std::make_unique<DatumsInMemory>(LocationOf(this->spec()).title, datums),
                     PictureMode::kUnchanged);
  auto reader = images->NewReader();
  const Shape item = {channels(), height(), width()};
  for (int64_t i = 0; i < images->size(); ++i) {
    const Shape shape = transform_->OutputShape(reader->Read(i).arrays[0].shape);
    if (shape == item) continue;
    throw DataError(images->name(), i,
                    fmt::format("is {} after transform_param, but the layer says {}",
                                shape.ToString(), item.ToString()),
                    "give images of that size, or correct memory_data_param");
  }
  reader_ = std::move(reader);  // the old one first: it uses the old images
  images_ = std::move(images);
  data_ = labels_ = nullptr;
  rows_ = static_cast<int64_t>(datums.size());
  next_ = 0;
  unused_ = true;
}

template <typename T>
void MemoryData<T>::SetBatchSize(int64_t batch) {
  CheckUsed("the batch size is changed");
  this->spec().Check(batch > 0, "memory_data_param.batch_size",
                     fmt::format("a batch size of {} was asked for", batch), "give 1 or more");
  batch_ = batch;
  next_ = 0;
  if (rows_ % batch != 0) rows_ = 0;  // no whole batches: new data are needed
}

template <typename T>
void MemoryData<T>::TransformBatch(RunContext& run) {
  batch_data_.resize(static_cast<size_t>(batch_ * RowCount()));
  batch_labels_.resize(static_cast<size_t>(batch_));
  const RandomKey key = DrawKey(run, *this);
  for (int64_t row = 0; row < batch_; ++row) {
    const Sample& sample = reader_->Read(next_ + row);
    transform_->Apply(sample, key, run.replica.Slot(row), batch_data_.data() + row * RowCount());
    At(batch_labels_, row) = static_cast<T>(sample.arrays[1].doubles[0]);
  }
}

template <typename T>
void MemoryData<T>::Forward(RunContext& run, Blobs<T> /*bottom*/, Blobs<T> top) {
  this->spec().Check(rows_ > 0, "memory_data_param", "it was given no data",
                     "call Reset or AddDatums (in Python: set_input_arrays) before the pass");
  if (images_ != nullptr) {
    TransformBatch(run);
    top[0]->SetData(run.stream, batch_data_);
    top[1]->SetData(run.stream, batch_labels_);
  } else {
    const auto batch = static_cast<size_t>(batch_), row = static_cast<size_t>(RowCount());
    top[0]->SetData(run.stream, {data_ + next_ * RowCount(), batch * row});
    top[1]->SetData(run.stream, {labels_ + next_, batch});
  }
  next_ = (next_ + batch_) % rows_;
  if (next_ == 0) unused_ = false;
}

template <typename T>
bool MemoryData<T>::RewindForward(Stream& /*stream*/, int passes) {
  if (rows_ == 0) return true;  // no Forward has run with these data
  next_ = (next_ + rows_ - passes * batch_ % rows_) % rows_;
  return true;
}

template class MemoryData<float>;
template class MemoryData<double>;

namespace {

const RegisterLayer<MemoryData> kRegistered{{.type = "MemoryData",
                                             .bottoms = {0, 0},
                                             .tops = {2, 2},
                                             .summary = "Arrays that the program hands over.",
                                             .is_data = true}};
const RegisterFileSettings kFiles{"MemoryData", {.fields = {"transform_param.mean_file"}}};

}  // namespace
}  // namespace carafe
