// CaffeGPI's layers ParallelData and ParallelInMemData: pictures of one raw file with their labels.
// Here both read the same way (the system keeps the file in memory) and deal like the Data layer.
#include "carafe/base/log.h"
#include "carafe/layers/record_batches.h"

namespace carafe {
namespace {

bool InMemory(const LayerSpec& spec) { return spec.param().type() == "ParallelInMemData"; }

std::string MessageOf(const LayerSpec& spec) {
  return InMemory(spec) ? "parallel_inmem_data_param" : "parallel_data_param";
}

const CarafeParallelDataParameter& ParamOf(const LayerSpec& spec) {
  return InMemory(spec) ? spec.param().parallel_inmem_data_param()
                        : spec.param().parallel_data_param();
}

RecordSettings SettingsOf(const LayerSpec& spec) {
  const CarafeParallelDataParameter& param = ParamOf(spec);
  return {.batch = {.batch_size = param.batch_size(),
                    .batch_path = MessageOf(spec) + ".batch_size",
                    .prefetch = spec.param().data_param().prefetch(),
                    .deal = spec.phase() == TRAIN && !param.test()},
          .shuffle = param.shuffle(),
          .rand_skip = param.rand_skip()};
}

// mean_file, crop_size and mirror may stand in either message; transform_param wins.
TransformationParameter TransformOf(const LayerSpec& spec) {
  const CarafeParallelDataParameter& param = ParamOf(spec);
  TransformationParameter transform = spec.param().transform_param();
  if (param.has_mean_file() && !transform.has_mean_file() && transform.mean_value_size() == 0) {
    transform.set_mean_file(param.mean_file());
  }
  if (param.has_crop_size() && !transform.has_crop_size()) {
    transform.set_crop_size(param.crop_size());
  }
  if (param.has_mirror() && !transform.has_mirror()) transform.set_mirror(param.mirror());
  return transform;
}

template <typename T>
std::unique_ptr<const BatchMaker<T>> Open(const LayerSpec& spec) {
  const SettingsOwner owner = OwnerOf(spec);
  return MakeRecordBatches<T>(
      spec, SettingsOf(spec), OpenRawPictures(ParamOf(spec), MessageOf(spec), owner),
      std::make_unique<Transformer>(TransformOf(spec), spec.phase(), owner));
}

template <typename T>
class ParallelData final : public BatchLayer<T> {
 public:
  explicit ParallelData(const LayerSpec& spec)
      : BatchLayer<T>(spec, SettingsOf(spec).batch, [spec] { return Open<T>(spec); }) {
    if (ParamOf(spec).has_max_block_size()) {
      LogWarning("layer \"{}\": max_block_size has no effect", spec.name());
    }
  }
};

const RegisterLayer<ParallelData> kParallelData{
    {.type = "ParallelData",
     .bottoms = {0, 0},
     .tops = {1, 2},
     .summary = "Pictures of one raw file and labels of a text file (CaffeGPI).",
     .is_data = true}};
const RegisterLayer<ParallelData> kParallelInMemData{
    {.type = "ParallelInMemData",
     .bottoms = {0, 0},
     .tops = {1, 2},
     .summary = "As ParallelData, with the settings in parallel_inmem_data_param (CaffeGPI).",
     .is_data = true}};

}  // namespace
}  // namespace carafe
