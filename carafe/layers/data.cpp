// Records of a database, transformed, as (rows, channels, height, width) and labels (rows). In
// TRAIN the records are divided among the workers (data/sampler.h); after the last comes the first
// again.
#include "carafe/base/log.h"
#include "carafe/data/datasets.h"
#include "carafe/layers/batch_layer.h"

namespace carafe {
namespace {

BatchSettings SettingsOf(const LayerSpec& spec) {
  const DataParameter& param = spec.param().data_param();
  return {.batch_size = param.batch_size(),
          .batch_path = "data_param.batch_size",
          .prefetch = param.prefetch(),
          .shard = spec.phase() == TRAIN,
          .shuffle = param.shuffle(),
          .sizes_may_vary = param.batch_size() == 1};
}

DataPipeline Open(const LayerSpec& spec) {
  const SettingsLocation location = LocationOf(spec);
  const TransformationParameter& transform = spec.param().transform_param();
  auto database = OpenDatabase(spec.param().data_param(), location);
  return {.data = NewDatabaseSet(std::move(database), DecodeMode(transform, location)),
          .transform = NewTransform(transform, spec.phase(), location)};
}

template <typename T>
class Data final : public BatchLayer<T> {
 public:
  explicit Data(const LayerSpec& spec)
      : BatchLayer<T>(spec, SettingsOf(spec), [spec] { return Open(spec); }) {
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
const RegisterFileSettings kFiles{"Data",
                                  {.fields = {"data_param.source", "transform_param.mean_file"},
                                   .declare_images = [](const LayerParameter& layer) {
                                     const DataParameter& param = layer.data_param();
                                     return DeclaredImages{.source = param.source(),
                                                           .batch = param.batch_size()};
                                   }}};

}  // namespace
}  // namespace carafe
