// Pairs of an image and an image of labels that a list names (SegNet, ENet): images transformed, as
// (rows, channels, height, width), and labels (rows, 1, height / f, width / f), f being
// label_divide_factor. In TRAIN they are divided among the workers like the records of a database.
#include <fmt/format.h>

#include "carafe/data/dense_images.h"
#include "carafe/layers/batch_layer.h"
#include "carafe/proto/fork_messages.h"

namespace carafe {
namespace {

DenseImageDataParameter ParamOf(const LayerParameter& layer) {
  return ForkPart<ForkLayerParameter>(layer).dense_image_data_param();
}

BatchSettings SettingsOf(const LayerSpec& spec) {
  const DenseImageDataParameter param = ParamOf(spec.param());
  return {.batch_size = param.batch_size(),
          .batch_path = "dense_image_data_param.batch_size",
          .prefetch = spec.param().data_param().prefetch(),
          .shard = spec.phase() == TRAIN,
          .shuffle = param.shuffle(),
          .rand_skip = param.rand_skip(),
          .sizes_may_vary = false};
}

DataPipeline Open(const LayerSpec& spec) {
  const DenseImageDataParameter param = ParamOf(spec.param());
  return {
      .data = OpenDenseImages({.list = param.source(),
                               .root = param.root_folder(),
                               .color = param.is_color(),
                               .height = param.new_height(),
                               .width = param.new_width(),
                               .label_divisor = param.label_divide_factor()}),
      .transform = NewTransform(spec.param().transform_param(), spec.phase(), LocationOf(spec))};
}

template <typename T>
class DenseImageData final : public BatchLayer<T> {
 public:
  explicit DenseImageData(const LayerSpec& spec)
      : BatchLayer<T>(spec, SettingsOf(spec), [spec] { return Open(spec); }) {
    constexpr uint32_t kMaxSide = 1 << 16;
    const DenseImageDataParameter param = ParamOf(spec.param());
    const auto check = [&](bool condition, const std::string& what, const std::string& fix) {
      spec.Check(condition, "dense_image_data_param", what, fix);
    };
    check(!param.source().empty(), "source is missing",
          "give the path of a text file with lines \"image labels\"");
    check(
        (param.new_height() > 0) == (param.new_width() > 0) && param.new_height() <= kMaxSide &&
            param.new_width() <= kMaxSide,
        fmt::format("new_height is {} and new_width is {}", param.new_height(), param.new_width()),
        "give both, at most 65536, or none to keep the size of the images");
    check(param.label_divide_factor() > 0, "label_divide_factor is 0", "use 1 or more");
    const TransformationParameter& transform = spec.param().transform_param();
    spec.Check(transform.crop_size() == 0 && !transform.mirror(), "transform_param",
               "crop_size and mirror would change the images and not their labels",
               "remove them, and crop or mirror the files of both beforehand");
  }
};

const RegisterLayer<DenseImageData> kRegistered{
    {.type = "DenseImageData",
     .bottoms = {0, 0},
     .tops = {2, 2},
     .summary = "Picture files and pictures of labels of a list (SegNet).",
     .is_data = true}};
const RegisterFileSettings kFiles{
    "DenseImageData",
    {.fields = {"transform_param.mean_file"}, .declare_images = [](const LayerParameter& layer) {
       const DenseImageDataParameter param = ParamOf(layer);
       return DeclaredImages{.source = param.source(),
                             .batch = param.batch_size(),
                             .channels = param.is_color() ? 0 : 1,
                             .height = param.new_height(),
                             .width = param.new_width(),
                             .label_divisor = param.label_divide_factor()};
     }}};

}  // namespace
}  // namespace carafe
