#include "carafe/layers/record_batches.h"

#include <fmt/format.h>

#include "carafe/base/random.h"

namespace carafe {
namespace {

template <typename T>
class RecordBatches final : public BatchMaker<T> {
 public:
  RecordBatches(const LayerSpec& spec, const RecordSettings& settings,
                std::unique_ptr<const Pictures> pictures,
                std::unique_ptr<const Transformer> transformer)
      : spec_(spec),
        settings_(settings),
        pictures_(std::move(pictures)),
        transformer_(std::move(transformer)) {
    Datum storage;
    first_ = pictures_->Read(0, &storage);
    first_.bytes = {};
    first_.floats = {};  // the storage goes; the size stays
    item_ = transformer_->OutputShape(first_);
  }

  Shape item() const override { return item_; }
  bool sizes_may_vary() const override { return settings_.sizes_may_vary; }

  void Make(const Pass& pass, const Replica& replica, int64_t rows,
            Batch<T>* batch) const override {
    const uint64_t layer = MakeRandomKey(pass.seed, spec_.name(), 0).key;
    const Dealer dealer = MakeDealer(layer);
    const Pass from = Skipped(pass, layer);
    const RandomKey key = MakeRandomKey(pass.seed, spec_.name(), pass.index);
    const bool vary = sizes_may_vary();
    DatumView expected = first_;
    Shape item = item_;
    Datum storage;
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t index = dealer.Record(from, replica, row);
      DatumView picture = pictures_->Read(index, &storage);
      if (!picture.SameSize(expected)) {
        const Shape shape = transformer_->OutputShape(picture);
        if (row == 0 && vary) {
          item = shape;
        } else if (shape != item) {
          FailSize(index, picture, expected);
        }
      }
      if (row == 0) {
        const Shape all{rows, item[0], item[1], item[2]};
        ResizeBatch(spec_, settings_.batch.batch_path, all, batch);
        if (vary) expected = picture;
      }
      transformer_->Apply(picture, key, dealer.Slot(replica, row),
                          batch->data.data() + row * item.Count());
      batch->labels[static_cast<size_t>(row)] = static_cast<T>(picture.label);
    }
  }

 private:
  Dealer MakeDealer(uint64_t layer) const {
    return {.records = pictures_->size(),
            .batch = settings_.batch.batch_size,
            .deal = settings_.batch.deal,
            .shuffle = settings_.shuffle,
            .shuffle_key = MixSeed(layer, HashName("shuffle"))};
  }

  Pass Skipped(Pass pass, uint64_t layer) const {
    if (settings_.rand_skip > 0) {
      pass.origin +=
          static_cast<int64_t>(MixSeed(layer, HashName("rand_skip")) % settings_.rand_skip);
    }
    return pass;
  }

  [[noreturn]] void FailSize(int64_t index, const DatumView& picture,
                             const DatumView& expected) const {
    throw DataError(pictures_->name(), index,
                    fmt::format("{} is {} but the first record{} is {}", pictures_->Describe(index),
                                picture.SizeText(), sizes_may_vary() ? " of its batch" : "",
                                expected.SizeText()),
                    "make all pictures of a database the same size, or use batch_size: 1");
  }

  const LayerSpec spec_;
  const RecordSettings settings_;
  const std::unique_ptr<const Pictures> pictures_;
  const std::unique_ptr<const Transformer> transformer_;
  DatumView first_;  // its size only
  Shape item_;
};

}  // namespace

template <typename T>
std::unique_ptr<const BatchMaker<T>> MakeRecordBatches(
    const LayerSpec& spec, const RecordSettings& settings, std::unique_ptr<const Pictures> pictures,
    std::unique_ptr<const Transformer> transformer) {
  return std::make_unique<RecordBatches<T>>(spec, settings, std::move(pictures),
                                            std::move(transformer));
}

template std::unique_ptr<const BatchMaker<float>> MakeRecordBatches(
    const LayerSpec&, const RecordSettings&, std::unique_ptr<const Pictures>,
    std::unique_ptr<const Transformer>);
template std::unique_ptr<const BatchMaker<double>> MakeRecordBatches(
    const LayerSpec&, const RecordSettings&, std::unique_ptr<const Pictures>,
    std::unique_ptr<const Transformer>);

}  // namespace carafe
