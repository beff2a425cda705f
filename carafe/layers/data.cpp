// Records of a database, transformed, as (rows, channels, height, width) and labels (rows). The
// records are dealt over the workers in TRAIN (data/dealer.h); the source repeats for ever.
#include "carafe/base/log.h"
#include "carafe/layers/record_batches.h"

namespace carafe {
namespace {

RecordSettings SettingsOf(const LayerSpec& spec) {
  const DataParameter& param = spec.param().data_param();
  return {.batch = {.batch_size = param.batch_size(),
                    .batch_path = "data_param.batch_size",
                    .prefetch = param.prefetch(),
                    .deal = spec.phase() == TRAIN},
          .shuffle = param.shuffle(),
          .sizes_may_vary = param.batch_size() == 1};
}

template <typename T>
std::unique_ptr<const BatchMaker<T>> Open(const LayerSpec& spec) {
  const SettingsOwner owner = OwnerOf(spec);
  auto source = OpenSource(spec.param().data_param(), owner);
  auto transformer =
      std::make_unique<Transformer>(spec.param().transform_param(), spec.phase(), owner);
  auto pictures = MakeDatumPictures(std::move(source), transformer->picture_mode());
  return MakeRecordBatches<T>(spec, SettingsOf(spec), std::move(pictures), std::move(transformer));
}

template <typename T>
class Data final : public BatchLayer<T> {
 public:
  explicit Data(const LayerSpec& spec)
      : BatchLayer<T>(spec, SettingsOf(spec).batch, [spec] { return Open<T>(spec); }) {
    WarnOfOldTransforms(spec, "data_param");
    if (spec.param().data_param().rand_skip() > 0) {
      LogWarning("layer \"{}\": rand_skip has no effect; shuffle: true draws in random order",
                 spec.name());
    }
  }
};

const RegisterLayer<Data> kRegistered{
    {.type = "Data",
     .bottoms = {0, 0},
     .tops = {1, 2},
     .summary = "Records and labels of an LMDB or LevelDB database.",
     .is_data = true}};

}  // namespace
}  // namespace carafe
