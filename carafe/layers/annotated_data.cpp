// Images of a database with the boxes in them (SSD), transformed (data/annotated_transform.h):
// images (rows, channels, height, width), and all boxes of the batch (1, 1, boxes, 8): image,
// label, instance, x1, y1, x2, y2, difficult; without any one row of -1. With yolo_data_type: 1
// instead (rows, 1, 300, 5): label - 1, x, y, width, height of up to 300 boxes, then zeros. In
// TRAIN the records are divided among the workers as those of Data; every draw belongs to the slot.
#include <fmt/format.h>

#include <algorithm>

#include "carafe/base/log.h"
#include "carafe/core/trace_span.h"
#include "carafe/data/annotated_transform.h"
#include "carafe/data/prefetch.h"
#include "carafe/layers/batch_layer.h"
#include "carafe/proto/fork_messages.h"

namespace carafe {
namespace {

constexpr int64_t kYoloBoxes = 300, kYoloNumbers = 5, kNumbers = 8;

AnnotatedDataParameter ParamOf(const LayerParameter& layer) {
  return ForkPart<ForkLayerParameter>(layer).annotated_data_param();
}

// Fills batches. Load is called by one thread at a time; the other functions by any.
template <typename T>
class AnnotatedLoader {
 public:
  explicit AnnotatedLoader(const LayerSpec& spec)
      : name_(spec.name()),
        param_(ParamOf(spec.param())),
        transform_(spec.param(), spec.phase(), LocationOf(spec)),
        sampler_{.batch = spec.param().data_param().batch_size(), .shard = spec.phase() == TRAIN},
        shuffle_(spec.param().data_param().shuffle()) {}

  void Open(const LayerSpec& spec) {
    if (data_ != nullptr) return;
    const SettingsLocation location = LocationOf(spec);
    data_ = NewAnnotatedSet(OpenDatabase(spec.param().data_param(), location),
                            DecodeMode(spec.param().transform_param(), location));
    first_ = data_->SampleShapes()[0];
  }
  const DataSet& data() const { return *data_; }
  Shapes ShapesOf(int64_t rows, int resize) const {
    const Shape labels =
        yolo() ? Shape{rows, 1, kYoloBoxes, kYoloNumbers} : Shape{1, 1, 1, kNumbers};
    return {WithRows(rows, transform_.OutputShape(first_, resize)), labels};
  }
  int64_t Rows(const Replica& replica) const { return sampler_.Rows(replica); }

  void Load(const Pass& pass, const Replica& replica, Batch<T>* batch) {
    if (reader_ == nullptr) reader_ = data_->NewReader();
    const int64_t rows = Rows(replica);
    const RandomKey key = MakeRandomKey(pass.seed, name_, pass.index);
    const uint64_t of_pass = MixSeed(key.key, static_cast<uint64_t>(pass.index));
    RandomSequence for_all(MixSeed(of_pass, HashName("resize")));  // one size for all workers
    const int resize = transform_.DrawResize(&for_all);
    batch->arrays.resize(2);
    std::vector<T>& labels = batch->arrays[1].values;
    labels.clear();
    Shape row_shape;
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t index = RecordOf(pass, replica, row);
      const Sample& sample = reader_->Read(index);
      const Shape shape = transform_.OutputShape(sample.arrays[0].shape, resize);
      if (row == 0) {
        row_shape = shape;
        batch->arrays[0].shape = WithRows(rows, shape);
        batch->arrays[0].values.resize(static_cast<size_t>(rows * shape.Count()));
      }
      CheckSize(index, shape, row_shape);
      RandomSequence draws(MixSeed(of_pass, static_cast<uint64_t>(sampler_.Slot(replica, row))));
      const std::vector<AnnotatedBox> boxes = transform_.Apply(
          sample, resize, &draws, batch->arrays[0].values.data() + row * shape.Count());
      yolo() ? AddYoloBoxes(boxes, &labels) : AddBoxes(row, boxes, &labels);
    }
    if (yolo()) {
      batch->arrays[1].shape = {rows, 1, kYoloBoxes, kYoloNumbers};
      return;
    }
    if (labels.empty()) labels.assign(kNumbers, T(-1));
    batch->arrays[1].shape = {1, 1, static_cast<int64_t>(labels.size()) / kNumbers, kNumbers};
  }

 private:
  bool yolo() const { return param_.yolo_data_type() == 1; }
  int64_t RecordOf(const Pass& pass, const Replica& replica, int64_t row) const {
    const EpochPosition at = sampler_.At(pass, replica, row, data_->size());
    if (!shuffle_) return at.index;
    const uint64_t key = MakeRandomKey(pass.seed, name_, 0).key;
    return data_->ShuffledRecord(MixSeed(key, HashName("shuffle")), at.epoch, at.index);
  }
  void CheckSize(int64_t index, const Shape& shape, const Shape& expected) const {
    if (shape == expected) return;
    throw DataError(data_->name(), index,
                    fmt::format("{} is {} but the first record of its batch is {}",
                                data_->Describe(index), shape.ToString(), expected.ToString()),
                    "give a resize_param, or use batch_size: 1");
  }
  void AddBoxes(int64_t row, const std::vector<AnnotatedBox>& boxes, std::vector<T>* labels) const {
    for (const AnnotatedBox& box : boxes) {
      for (const float number : {static_cast<float>(row), static_cast<float>(box.label),
                                 static_cast<float>(box.instance), box.corners.x1, box.corners.y1,
                                 box.corners.x2, box.corners.y2, box.difficult ? 1.0F : 0.0F}) {
        labels->push_back(static_cast<T>(number));
      }
    }
  }
  void AddYoloBoxes(const std::vector<AnnotatedBox>& boxes, std::vector<T>* labels) const {
    const size_t end = labels->size() + kYoloBoxes * kYoloNumbers;
    for (const AnnotatedBox& box : boxes) {
      if (labels->size() == end) break;
      if (box.difficult && !param_.train_diffcult()) continue;
      const Corners& c = box.corners;
      for (const float number : {static_cast<float>(box.label - 1), (c.x1 + c.x2) / 2,
                                 (c.y1 + c.y2) / 2, c.x2 - c.x1, c.y2 - c.y1}) {
        labels->push_back(static_cast<T>(number));
      }
    }
    labels->resize(end, T(0));
  }

  const std::string name_;
  const AnnotatedDataParameter param_;
  const AnnotatedTransform transform_;
  const Sampler sampler_;
  const bool shuffle_;
  std::unique_ptr<const DataSet> data_;
  Shape first_;                           // of the image of record 0
  std::unique_ptr<RecordReader> reader_;  // made by the first Load
};

// Used by the thread that runs the net.
template <typename T>
class AnnotatedData final : public Layer<T>, public DataLayer {
 public:
  explicit AnnotatedData(const LayerSpec& spec) : Layer<T>(spec), loader_(spec) {
    const DataParameter& data = spec.param().data_param();
    spec.Check(data.batch_size() > 0, "data_param.batch_size", "batch_size is 0 or missing",
               "give the number of images of one pass, e.g. batch_size: 32");
    spec.Check(data.prefetch() > 0, "data_param.prefetch", "prefetch is 0",
               "omit it (4 batches are loaded ahead), or give 1 or more");
    if (ParamOf(spec.param()).has_label_map_file()) {
      LogInfo("layer \"{}\": label_map_file has no effect; labels are numbers", spec.name());
    }
  }
  Shapes InferShapes(const Shapes&) const override {
    loader_.Open(this->spec());
    Shapes shapes = loader_.ShapesOf(this->spec().param().data_param().batch_size(), 0);
    shapes.resize(static_cast<size_t>(this->spec().param().top_size()));
    return shapes;
  }
  void Reshape(RunContext& run, Blobs<T>, Blobs<T> top) override {
    loader_.Open(this->spec());
    this->spec().Check(loader_.Rows(run.replica) > 0, "data_param.batch_size",
                       fmt::format("a global batch of {} leaves nothing for worker {} of {}",
                                   run.replica.global_batch, run.replica.index, run.replica.count),
                       "use a larger global batch or fewer workers");
    const Batch<T>& batch = Take(run);
    for (size_t i = 0; i < top.size(); ++i) top[i]->Reshape(batch.arrays[i].shape);
  }
  void Forward(RunContext& run, Blobs<T>, Blobs<T> top) override {
    const Batch<T>& batch = Take(run);
    taken_ = nullptr;
    for (size_t i = 0; i < top.size(); ++i) top[i]->SetData(run.stream, batch.arrays[i].values);
  }
  void Backward(RunContext&, Blobs<T>, const std::vector<bool>&, Blobs<T>) override {}
  const DataSet& data_set() const override {
    loader_.Open(this->spec());
    return loader_.data();
  }
  double data_wait_seconds() const override {
    return prefetcher_ == nullptr ? 0 : prefetcher_->wait_seconds();
  }

 private:
  // The batch of this pass, once: Reshape and Forward of the same pass share it.
  const Batch<T>& Take(RunContext& run) {
    if (taken_ != nullptr && taken_pass_ == run.pass && taken_replica_ == run.replica) {
      return *taken_;
    }
    if (prefetcher_ == nullptr) {
      prefetcher_ = std::make_unique<Prefetcher<T>>(
          this->spec().param().data_param().prefetch(),
          [this, trace = run.trace](const Pass& pass, const Replica& replica, Batch<T>* batch) {
            const TraceSpan span(trace, "load", this->name());
            loader_.Load(pass, replica, batch);
          });
    }
    taken_ = nullptr;  // stays so if Take throws
    const TraceSpan wait(run.trace, "data", "wait");
    taken_ = &prefetcher_->Take(run.pass, run.replica);
    taken_pass_ = run.pass;
    taken_replica_ = run.replica;
    return *taken_;
  }

  mutable AnnotatedLoader<T> loader_;  // opened when shapes are first needed
  const Batch<T>* taken_ = nullptr;    // the prefetcher's; null once Forward has copied it
  Pass taken_pass_;
  Replica taken_replica_;
  std::unique_ptr<Prefetcher<T>> prefetcher_;  // last: its thread uses the above
};

const RegisterLayer<AnnotatedData> kRegistered{
    {.type = "AnnotatedData",
     .bottoms = {0, 0},
     .tops = {1, 2},
     .summary = "Images of a database and the boxes in them (SSD).",
     .is_data = true}};
const RegisterFileSettings kFiles{
    "AnnotatedData",
    {.fields = {"data_param.source"}, .declare_images = [](const LayerParameter& layer) {
       const auto fork = ForkPart<ForkTransformationParameter>(layer.transform_param());
       const int64_t batch = layer.data_param().batch_size(),
                     crop = layer.transform_param().crop_size();
       DeclaredImages images{.source = layer.data_param().source(), .batch = batch};
       images.resized = crop > 0 || fork.resize_param_size() > 0;
       if (images.resized) {
         images.height = crop > 0 ? crop : fork.resize_param(0).height();
         images.width = crop > 0 ? crop : fork.resize_param(0).width();
       }
       images.label_shape = {1, 1, 1, kNumbers};
       if (ParamOf(layer).yolo_data_type() == 1) {
         images.label_shape = {batch, 1, kYoloBoxes, kYoloNumbers};
       }
       return images;
     }}};

}  // namespace
}  // namespace carafe
