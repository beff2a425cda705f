// Windows of images, drawn at random, as squares (rows, channels, crop, crop), and their classes
// (rows). Of the global batch the first slots are background, the last fg_fraction of it
// foreground; each draw belongs to its slot, so it does not depend on the number of workers.
#include <fmt/format.h>

#include "carafe/data/windows.h"
#include "carafe/layers/batch_layer.h"

namespace carafe {
namespace {

enum Draw { kWindow, kMirror };

BatchSettings SettingsOf(const LayerSpec& spec) {
  return {.batch_size = spec.param().window_data_param().batch_size(),
          .batch_path = "window_data_param.batch_size",
          .prefetch = spec.param().data_param().prefetch(),
          .shard = spec.phase() == TRAIN};
}

NewStep MeanStep(const LayerSpec& spec) {
  const TransformationParameter& transform = spec.param().transform_param();
  const int values = transform.mean_value_size();
  spec.Check(!transform.has_mean_file() || values == 0, "transform_param.mean_value",
             "mean_file and mean_value are both given", "keep one of the two");
  if (values > 0) {
    return SubtractMeanValues({transform.mean_value().begin(), transform.mean_value().end()},
                              LocationOf(spec));
  }
  if (!transform.has_mean_file()) return nullptr;
  const int64_t crop = transform.crop_size();
  MeanImage mean = ReadMeanFile(transform.mean_file());
  spec.Check(mean.channels == WindowSet::kChannels && mean.height >= crop && mean.width >= crop,
             "transform_param.mean_file",
             fmt::format("the mean image {} is {}x{}x{}, smaller than the windows of 3x{}x{}",
                         transform.mean_file(), mean.channels, mean.height, mean.width, crop, crop),
             "use a mean file of at least crop_size");
  return SubtractMeanCentre(std::move(mean));
}

// As Caffe, this layer takes scale from its own message.
std::unique_ptr<const Transform> TransformOf(const LayerSpec& spec) {
  const WindowDataParameter& param = spec.param().window_data_param();
  const TransformationParameter& transform = spec.param().transform_param();
  std::vector<NewStep> steps;
  if (transform.mirror()) steps.push_back(MirrorAtRandom(kMirror));
  steps.push_back(WarpWindow({.crop = transform.crop_size(),
                              .context_pad = param.context_pad(),
                              .square = param.crop_mode() == "square"}));
  if (NewStep mean = MeanStep(spec)) steps.push_back(std::move(mean));
  steps.push_back(Scale(param.scale()));
  return std::make_unique<Transform>(std::move(steps));
}

DataPipeline Open(const LayerSpec& spec) {
  const WindowDataParameter& param = spec.param().window_data_param();
  auto windows = std::make_unique<WindowSet>(param);
  const auto draw = [set = windows.get(), fraction = param.fg_fraction()](
                        const RandomKey& key, int64_t slot, int64_t rows) {
    const auto foreground = static_cast<int64_t>(static_cast<float>(rows) * fraction);
    return set->Choose(slot >= rows - foreground, key.Bits(slot, kWindow));
  };
  return {.data = std::move(windows), .transform = TransformOf(spec), .draw = draw};
}

template <typename T>
class WindowData final : public BatchLayer<T> {
 public:
  explicit WindowData(const LayerSpec& spec)
      : BatchLayer<T>(spec, SettingsOf(spec), [spec] { return Open(spec); }) {
    constexpr int64_t kMaxCrop = 1 << 14;
    const WindowDataParameter& param = spec.param().window_data_param();
    const int64_t crop = spec.param().transform_param().crop_size();
    const int64_t pad = param.context_pad();
    spec.Check(!param.source().empty(), "window_data_param.source", "source is missing",
               "give the path of a window file");
    spec.Check(crop > 0 && crop <= kMaxCrop, "transform_param.crop_size",
               fmt::format("crop_size is {}", crop),
               "give the size of the squares that windows are scaled to, e.g. crop_size: 227");
    spec.Check(2 * pad < crop, "window_data_param.context_pad",
               fmt::format("context_pad is {}, which leaves nothing of crop_size {}", pad, crop),
               "use less than half of crop_size");
    spec.Check(param.crop_mode() == "warp" || param.crop_mode() == "square",
               "window_data_param.crop_mode",
               fmt::format("crop_mode \"{}\" is unknown", param.crop_mode()),
               "use \"warp\" or \"square\"");
    spec.Check(param.fg_fraction() >= 0 && param.fg_fraction() <= 1,
               "window_data_param.fg_fraction",
               fmt::format("fg_fraction is {}", param.fg_fraction()), "use a number from 0 to 1");
  }
};

const RegisterLayer<WindowData> kRegistered{
    {.type = "WindowData",
     .bottoms = {0, 0},
     .tops = {2, 2},
     .summary = "Windows of pictures, drawn from an R-CNN window file.",
     .is_data = true}};
const RegisterFileSettings kFiles{
    "WindowData",
    {.fields = {"window_data_param.source", "window_data_param.root_folder",
                "window_data_param.mean_file", "transform_param.mean_file"},
     .declare_images = [](const LayerParameter& layer) {
       const WindowDataParameter& param = layer.window_data_param();
       return DeclaredImages{.source = param.source(),
                             .batch = param.batch_size(),
                             .height = param.crop_size(),
                             .width = param.crop_size()};
     }}};

}  // namespace
}  // namespace carafe
