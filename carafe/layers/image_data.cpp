// Picture files that a list names, transformed, as (rows, channels, height, width) and labels
// (rows). Dealt over the workers in TRAIN like the records of a database.
#include <fmt/format.h>

#include "carafe/layers/record_batches.h"

namespace carafe {
namespace {

RecordSettings SettingsOf(const LayerSpec& spec) {
  const ImageDataParameter& param = spec.param().image_data_param();
  return {
      .batch = {.batch_size = param.batch_size(),
                .batch_path = "image_data_param.batch_size",
                .prefetch = spec.param().data_param().prefetch(),
                .deal = spec.phase() == TRAIN},
      .shuffle = param.shuffle(),
      .rand_skip = param.rand_skip(),
      .sizes_may_vary = param.new_height() == 0 && spec.param().transform_param().crop_size() == 0};
}

template <typename T>
std::unique_ptr<const BatchMaker<T>> Open(const LayerSpec& spec) {
  const SettingsOwner owner = OwnerOf(spec);
  return MakeRecordBatches<T>(
      spec, SettingsOf(spec), OpenListedPictures(spec.param().image_data_param(), owner),
      std::make_unique<Transformer>(spec.param().transform_param(), spec.phase(), owner));
}

template <typename T>
class ImageData final : public BatchLayer<T> {
 public:
  explicit ImageData(const LayerSpec& spec)
      : BatchLayer<T>(spec, SettingsOf(spec).batch, [spec] { return Open<T>(spec); }) {
    constexpr uint32_t kMaxSide = 1 << 16;
    const ImageDataParameter& param = spec.param().image_data_param();
    spec.Check(
        (param.new_height() > 0) == (param.new_width() > 0), "image_data_param.new_height",
        fmt::format("new_height is {} and new_width is {}", param.new_height(), param.new_width()),
        "give both, or none to keep the size of the pictures");
    spec.Check(
        param.new_height() <= kMaxSide && param.new_width() <= kMaxSide,
        "image_data_param.new_height",
        fmt::format("pictures of {}x{} are too large", param.new_height(), param.new_width()),
        "use at most 65536 for each");
    WarnOfOldTransforms(spec, "image_data_param");
  }
};

const RegisterLayer<ImageData> kRegistered{{.type = "ImageData",
                                            .bottoms = {0, 0},
                                            .tops = {2, 2},
                                            .summary = "Picture files and labels of a list.",
                                            .is_data = true}};

}  // namespace
}  // namespace carafe
