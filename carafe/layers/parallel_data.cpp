// CaffeGPI's layers ParallelData and ParallelInMemData: images of one raw file with their labels.
// Here both read the same way (the system keeps the file in memory) and divide the records among
// the workers like the Data layer.
#include "carafe/base/log.h"
#include "carafe/data/datasets.h"
#include "carafe/layers/batch_layer.h"

namespace carafe {
namespace {

bool InMemory(const LayerParameter& layer) { return layer.type() == "ParallelInMemData"; }

std::string MessageOf(const LayerSpec& spec) {
  return InMemory(spec.param()) ? "parallel_inmem_data_param" : "parallel_data_param";
}

const CarafeParallelDataParameter& ParamOf(const LayerParameter& layer) {
  return InMemory(layer) ? layer.parallel_inmem_data_param() : layer.parallel_data_param();
}

BatchSettings SettingsOf(const LayerSpec& spec) {
  const CarafeParallelDataParameter& param = ParamOf(spec.param());
  return {.batch_size = param.batch_size(),
          .batch_path = MessageOf(spec) + ".batch_size",
          .prefetch = spec.param().data_param().prefetch(),
          .shard = spec.phase() == TRAIN && !param.test(),
          .shuffle = param.shuffle(),
          .rand_skip = param.rand_skip()};
}

// mean_file, crop_size and mirror may be in either message; transform_param wins.
TransformationParameter TransformOf(const LayerParameter& layer) {
  const CarafeParallelDataParameter& param = ParamOf(layer);
  TransformationParameter transform = layer.transform_param();
  if (param.has_mean_file() && !transform.has_mean_file() && transform.mean_value_size() == 0) {
    transform.set_mean_file(param.mean_file());
  }
  if (param.has_crop_size() && !transform.has_crop_size()) {
    transform.set_crop_size(param.crop_size());
  }
  if (param.has_mirror() && !transform.has_mirror()) transform.set_mirror(param.mirror());
  return transform;
}

DataPipeline Open(const LayerSpec& spec) {
  const SettingsLocation location = LocationOf(spec);
  return {.data = OpenRawImages(ParamOf(spec.param()), MessageOf(spec), location),
          .transform = NewTransform(TransformOf(spec.param()), spec.phase(), location)};
}

template <typename T>
class ParallelData final : public BatchLayer<T> {
 public:
  explicit ParallelData(const LayerSpec& spec)
      : BatchLayer<T>(spec, SettingsOf(spec), [spec] { return Open(spec); }) {
    if (ParamOf(spec.param()).has_max_block_size()) {
      LogWarning("layer \"{}\": max_block_size has no effect", spec.name());
    }
  }
};

DeclaredImages Declare(const LayerParameter& layer) {
  const CarafeParallelDataParameter& param = ParamOf(layer);
  const int64_t crop = TransformOf(layer).crop_size();
  return {.source = param.source().empty() ? "" : param.root_folder() + param.source(),
          .batch = param.batch_size(),
          .channels = param.is_color() ? 3 : 1,
          .height = crop > 0 ? crop : param.new_height(),
          .width = crop > 0 ? crop : param.new_width()};
}

FileSettings Files(const std::string& message) {
  return {.fields = {message + ".source", message + ".label", message + ".root_folder",
                     message + ".mean_file", "transform_param.mean_file"},
          .declare_images = Declare};
}

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
const RegisterFileSettings kFiles{"ParallelData", Files("parallel_data_param")};
const RegisterFileSettings kInMemFiles{"ParallelInMemData", Files("parallel_inmem_data_param")};

}  // namespace
}  // namespace carafe
