// Image files that a list names, transformed, as (rows, channels, height, width) and labels (rows).
// In TRAIN they are divided among the workers like the records of a database.
#include <fmt/format.h>

#include "carafe/data/datasets.h"
#include "carafe/layers/batch_layer.h"

namespace carafe {
namespace {

BatchSettings SettingsOf(const LayerSpec& spec) {
  const ImageDataParameter& param = spec.param().image_data_param();
  return {
      .batch_size = param.batch_size(),
      .batch_path = "image_data_param.batch_size",
      .prefetch = spec.param().data_param().prefetch(),
      .shard = spec.phase() == TRAIN,
      .shuffle = param.shuffle(),
      .rand_skip = param.rand_skip(),
      .sizes_may_vary = param.new_height() == 0 && spec.param().transform_param().crop_size() == 0};
}

DataPipeline Open(const LayerSpec& spec) {
  const SettingsLocation location = LocationOf(spec);
  const ImageDataParameter& param = spec.param().image_data_param();
  std::vector<NewStep> first;
  if (param.new_height() > 0) first.push_back(Resize(param.new_height(), param.new_width()));
  return {.data = OpenImageList(param, location),
          .transform = NewTransform(spec.param().transform_param(), spec.phase(), location,
                                    std::move(first))};
}

template <typename T>
class ImageData final : public BatchLayer<T> {
 public:
  explicit ImageData(const LayerSpec& spec)
      : BatchLayer<T>(spec, SettingsOf(spec), [spec] { return Open(spec); }) {
    constexpr uint32_t kMaxSide = 1 << 16;
    const ImageDataParameter& param = spec.param().image_data_param();
    spec.Check(
        (param.new_height() > 0) == (param.new_width() > 0), "image_data_param.new_height",
        fmt::format("new_height is {} and new_width is {}", param.new_height(), param.new_width()),
        "give both, or none to keep the size of the images");
    spec.Check(param.new_height() <= kMaxSide && param.new_width() <= kMaxSide,
               "image_data_param.new_height",
               fmt::format("images of {}x{} are too large", param.new_height(), param.new_width()),
               "use at most 65536 for each");
    WarnOfOldTransforms(spec, "image_data_param");
  }
};

const RegisterLayer<ImageData> kRegistered{{.type = "ImageData",
                                            .bottoms = {0, 0},
                                            .tops = {2, 2},
                                            .summary = "Picture files and labels of a list.",
                                            .is_data = true}};
const RegisterFileSettings kFiles{
    "ImageData",
    {.fields = {"image_data_param.source", "image_data_param.root_folder",
                "image_data_param.mean_file", "transform_param.mean_file"},
     .declare_images = [](const LayerParameter& layer) {
       const ImageDataParameter& param = layer.image_data_param();
       return DeclaredImages{.source = param.source(),
                             .batch = param.batch_size(),
                             .channels = param.is_color() ? 0 : 1,
                             .height = param.new_height(),
                             .width = param.new_width()};
     }}};

}  // namespace
}  // namespace carafe
