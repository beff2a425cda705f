// Records of a database, transformed, as (rows, channels, height, width) and labels (rows). The
// records are dealt over the workers in TRAIN (data/dealer.h) and made ahead by a thread
// (data/prefetch.h); the source repeats for ever.
#include <fmt/format.h>

#include <algorithm>

#include "carafe/base/log.h"
#include "carafe/data/datum.h"
#include "carafe/data/dealer.h"
#include "carafe/data/prefetch.h"
#include "carafe/data/source.h"
#include "carafe/data/transform.h"
#include "carafe/layers/layer.h"
#include "carafe/layers/wait_scope.h"

namespace carafe {
namespace {

// The database behind a layer and what its first record says. Constant after construction: the
// prefetching thread and the net read it at the same time.
class Input {
 public:
  explicit Input(const LayerSpec& spec)
      : source_(OpenSource(spec.param().data_param(), OwnerOf(spec))),
        transformer_(spec.param().transform_param(), spec.phase(), OwnerOf(spec)) {
    Datum storage;
    first_ = ReadDatum(*source_, 0, &storage);
    first_.bytes = {};
    first_.floats = {};  // the storage goes; the size stays
    item_ = transformer_.OutputShape(first_);
  }

  const Source& source() const { return *source_; }
  const Transformer& transformer() const { return transformer_; }
  const DatumView& first() const { return first_; }
  const Shape& item() const { return item_; }  // (c, h, w) of the first record

 private:
  static SettingsOwner OwnerOf(const LayerSpec& spec) {
    return {fmt::format("layer \"{}\" ({})", spec.name(), spec.param().type()), spec.place()};
  }
  const std::unique_ptr<Source> source_;
  const Transformer transformer_;
  DatumView first_;
  Shape item_;
};

Shape WithRows(int64_t rows, const Shape& item) { return {rows, item[0], item[1], item[2]}; }

template <typename T>
class Data final : public Layer<T> {
 public:
  explicit Data(const LayerSpec& spec) : Layer<T>(spec), param_(spec.param().data_param()) {
    spec.Check(param_.batch_size() > 0, "data_param.batch_size", "batch_size is 0 or missing",
               "give the number of records of one pass, e.g. batch_size: 64");
    spec.Check(param_.prefetch() > 0, "data_param.prefetch", "prefetch is 0",
               "leave it out (4 batches are made ahead), or give 1 or more");
    for (const char* field : {"scale", "mean_file", "crop_size", "mirror"}) {
      const auto* descriptor = param_.GetDescriptor()->FindFieldByName(field);
      if (!param_.GetReflection()->HasField(param_, descriptor)) continue;
      LogWarning("{}: layer \"{}\": {} has no effect in data_param; write it in transform_param",
                 spec.place().Find(fmt::format("data_param.{}", field)).ToString(), spec.name(),
                 field);
    }
    if (param_.rand_skip() > 0) {
      LogWarning("layer \"{}\": rand_skip has no effect; shuffle: true draws in random order",
                 spec.name());
    }
  }

  Shapes InferShapes(const Shapes& /*bottom*/) const override {
    return TopShapes(WithRows(param_.batch_size(), input().item()));
  }

  // Batches of one may change their size from record to record: that needs the batch already here.
  void Reshape(RunContext& run, Blobs<T> /*bottom*/, Blobs<T> top) override {
    const int64_t rows = Rows(run.replica);
    const Shape shape = SizesMayVary(rows) ? Take(run).shape : WithRows(rows, input().item());
    const Shapes shapes = TopShapes(shape);
    for (size_t i = 0; i < top.size(); ++i) top[i]->Reshape(shapes[i]);
  }

  void Forward(RunContext& run, Blobs<T> /*bottom*/, Blobs<T> top) override {
    const Batch<T>& batch = Take(run);
    taken_ = nullptr;
    top[0]->SetData(run.stream, batch.data);
    if (top.size() > 1) top[1]->SetData(run.stream, batch.labels);
  }

  void Backward(RunContext&, Blobs<T>, const std::vector<bool>&, Blobs<T>) override {}

 private:
  Shapes TopShapes(const Shape& data) const {
    Shapes shapes = {data};
    if (this->spec().param().top_size() > 1) shapes.push_back(Shape{data[0]});
    return shapes;
  }

  // Opened at the first question for shapes; no thread starts before the first batch is asked for.
  const Input& input() const {
    if (input_ == nullptr) input_ = std::make_unique<Input>(this->spec());
    return *input_;
  }

  Dealer MakeDealer(uint64_t seed) const {
    const uint64_t layer = MakeRandomKey(seed, this->name(), 0).key;
    return {.records = input().source().size(),
            .batch = param_.batch_size(),
            .deal = this->spec().phase() == TRAIN,
            .shuffle = param_.shuffle(),
            .shuffle_key = MixSeed(layer, HashName("shuffle"))};
  }

  int64_t Rows(const Replica& replica) const {
    const int64_t rows = MakeDealer(0).Rows(replica);
    this->spec().Check(rows > 0, "data_param.batch_size",
                       fmt::format("a global batch of {} leaves nothing for worker {} of {}",
                                   replica.global_batch, replica.index, replica.count),
                       "use a larger global batch or fewer workers");
    return rows;
  }

  bool SizesMayVary(int64_t rows) const { return param_.batch_size() == 1 && rows == 1; }

  // The batch of this pass, once: Reshape and Forward of the same pass share it.
  const Batch<T>& Take(RunContext& run) {
    if (taken_ != nullptr && taken_pass_ == run.pass && taken_replica_ == run.replica) {
      return *taken_;
    }
    if (prefetcher_ == nullptr) {
      input();
      prefetcher_ = std::make_unique<Prefetcher<T>>(
          static_cast<int>(std::min<uint32_t>(param_.prefetch(), INT32_MAX)),
          [this](const Pass& pass, const Replica& replica, Batch<T>* batch) {
            Make(pass, replica, batch);
          });
    }
    taken_ = nullptr;  // stays so if Take throws
    const WaitScope wait(run.trace);
    taken_ = &prefetcher_->Take(run.pass, run.replica);
    taken_pass_ = run.pass;
    taken_replica_ = run.replica;
    return *taken_;
  }

  // In the prefetcher's thread.
  void Make(const Pass& pass, const Replica& replica, Batch<T>* batch) const {
    const Dealer dealer = MakeDealer(pass.seed);
    const RandomKey key = MakeRandomKey(pass.seed, this->name(), pass.index);
    const Source& source = input_->source();
    const int64_t rows = Rows(replica);
    Shape item = input_->item();
    Datum storage;
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t index = dealer.Record(pass, replica, row);
      const DatumView picture = ReadDatum(source, index, &storage);
      if (!picture.SameSize(input_->first())) {
        if (!SizesMayVary(rows)) FailSize(index, picture);
        item = input_->transformer().OutputShape(picture);
      }
      if (row == 0) Resize(WithRows(rows, item), batch);
      input_->transformer().Apply(picture, key, dealer.Slot(replica, row),
                                  batch->data.data() + row * item.Count());
      batch->labels[static_cast<size_t>(row)] = static_cast<T>(picture.label);
    }
  }

  void Resize(const Shape& shape, Batch<T>* batch) const {
    try {
      batch->shape = shape;
      batch->data.resize(static_cast<size_t>(shape.Count()));
      batch->labels.resize(static_cast<size_t>(shape[0]));
    } catch (const std::exception&) {  // bad_alloc, length_error
      this->spec().Fail("data_param.batch_size",
                        fmt::format("there is no memory for a batch of {}", shape.ToString()),
                        "use a smaller batch_size");
    }
  }

  [[noreturn]] void FailSize(int64_t index, const DatumView& picture) const {
    const Source& source = input_->source();
    throw DataError(
        source.name(), index,
        fmt::format("(key \"{}\") is {} but the first record is {}", source.Read(index).key,
                    picture.SizeText(), input_->first().SizeText()),
        "make all pictures of a database the same size, or use batch_size: 1");
  }

  const DataParameter param_;
  mutable std::unique_ptr<const Input> input_;
  const Batch<T>* taken_ = nullptr;  // the prefetcher's; null once Forward has copied it
  Pass taken_pass_;
  Replica taken_replica_;
  std::unique_ptr<Prefetcher<T>> prefetcher_;  // last: its thread uses all the above
};

const RegisterLayer<Data> kRegistered{{.type = "Data",
                                       .bottoms = {0, 0},
                                       .tops = {1, 2},
                                       .summary = "Records and labels of an LMDB database.",
                                       .is_data = true}};

}  // namespace
}  // namespace carafe
