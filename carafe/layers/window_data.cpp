// Windows of pictures, drawn at random, as squares (rows, channels, crop, crop), and their classes
// (rows). Of the global batch the first slots are background, the last fg_fraction of it
// foreground; each draw belongs to its slot, so it does not depend on the number of workers.
#include <fmt/format.h>

#include "carafe/base/file.h"
#include "carafe/base/random.h"
#include "carafe/data/mean_file.h"
#include "carafe/data/windows.h"
#include "carafe/layers/batch_layer.h"

namespace carafe {
namespace {

enum Draw { kWindow, kMirror };

template <typename T>
class WindowBatches final : public BatchMaker<T> {
 public:
  WindowBatches(const LayerSpec& spec, BatchSettings settings)
      : spec_(spec),
        settings_(std::move(settings)),
        param_(spec.param().window_data_param()),
        transform_(spec.param().transform_param()),
        file_(ReadWindowFile(param_)),
        shape_{transform_.crop_size(), param_.context_pad(), param_.crop_mode() == "square"},
        dealer_{.batch = settings_.batch_size, .deal = settings_.deal} {
    if (param_.cache_images()) {
      for (const std::string& path : file_.images) cached_.push_back(ReadFile(path));
    }
    PrepareMean();
  }

  Shape item() const override { return {kChannels, shape_.crop, shape_.crop}; }

  void Make(const Pass& pass, const Replica& replica, int64_t rows,
            Batch<T>* batch) const override {
    ResizeBatch(spec_, settings_.batch_path, {rows, kChannels, shape_.crop, shape_.crop}, batch);
    std::fill(batch->data.begin(), batch->data.end(), T(0));
    const RandomKey key = MakeRandomKey(pass.seed, spec_.name(), pass.index);
    const int64_t all = settings_.deal ? replica.GlobalRows(settings_.batch_size) : rows;
    const int64_t background = all - ForegroundOf(all);
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t slot = dealer_.Slot(replica, row);
      const std::vector<Window>& windows = slot < background ? file_.background : file_.foreground;
      if (windows.empty()) {
        throw DataError(param_.source(), -1,
                        fmt::format("there is no window of the {}",
                                    slot < background ? "background" : "foreground"),
                        "check fg_threshold, bg_threshold and fg_fraction against the file");
      }
      const Window& window = windows[key.Bits(slot, kWindow) % windows.size()];
      const bool mirror = transform_.mirror() && key.Bits(slot, kMirror) % 2 == 1;
      Write(window, mirror, batch->data.data() + row * kChannels * shape_.crop * shape_.crop);
      batch->labels[static_cast<size_t>(row)] = static_cast<T>(window.label);
    }
  }

 private:
  static constexpr int64_t kChannels = 3;  // pictures are read in color

  int64_t ForegroundOf(int64_t rows) const {
    return static_cast<int64_t>(static_cast<float>(rows) * param_.fg_fraction());
  }

  void PrepareMean() {
    const int values = transform_.mean_value_size();
    spec_.Check(!transform_.has_mean_file() || values == 0, "transform_param.mean_value",
                "mean_file and mean_value are both given", "keep one of the two");
    spec_.Check(values <= 1 || values == kChannels, "transform_param.mean_value",
                fmt::format("there are {} mean values but the pictures have {} channels", values,
                            kChannels),
                "give one mean_value, or one for each channel");
    if (!transform_.has_mean_file()) return;
    mean_ = ReadMeanFile(transform_.mean_file());
    spec_.Check(
        mean_.channels == kChannels && mean_.height >= shape_.crop && mean_.width >= shape_.crop,
        "transform_param.mean_file",
        fmt::format("the mean image {} is {}x{}x{}, smaller than the windows of 3x{}x{}",
                    transform_.mean_file(), mean_.channels, mean_.height, mean_.width, shape_.crop,
                    shape_.crop),
        "use a mean file of at least crop_size");
  }

  // The middle of the mean image lies on the square.
  T MeanAt(int64_t c, int64_t y, int64_t x) const {
    if (mean_.values.empty()) {
      const int values = transform_.mean_value_size();
      return values == 0 ? T(0) : T(transform_.mean_value(values > 1 ? static_cast<int>(c) : 0));
    }
    const int64_t top = (mean_.height - shape_.crop) / 2, left = (mean_.width - shape_.crop) / 2;
    return T(
        mean_.values[static_cast<size_t>((c * mean_.height + top + y) * mean_.width + left + x)]);
  }

  void Write(const Window& window, bool mirror, T* out) const {
    const auto image = static_cast<size_t>(window.image);
    const std::string& path = file_.images[image];
    const PictureOrigin origin{.file = path};
    const Picture picture = cached_.empty()
                                ? ReadPicture(path, PictureMode::kColor)
                                : DecodePicture(cached_[image], PictureMode::kColor, origin);
    const WindowCut cut = CutWindow(picture, window, shape_, mirror, origin);
    const T scale = param_.scale();
    const uint8_t* from = cut.picture.pixels.data();
    for (int64_t y = 0; y < cut.picture.height; ++y) {
      for (int64_t x = 0; x < cut.picture.width; ++x) {
        for (int64_t c = 0; c < kChannels; ++c) {
          const int64_t row = cut.top + y, column = cut.left + x;
          out[(c * shape_.crop + row) * shape_.crop + column] =
              (static_cast<T>(*from++) - MeanAt(c, row, column)) * scale;
        }
      }
    }
  }

  const LayerSpec spec_;
  const BatchSettings settings_;
  const WindowDataParameter param_;
  const TransformationParameter transform_;
  const WindowFile file_;
  const WindowShape shape_;
  const Dealer dealer_;
  std::vector<std::string> cached_;  // files, in the order of file_.images; empty: not cached
  MeanImage mean_;                   // of mean_file, or empty
};

BatchSettings SettingsOf(const LayerSpec& spec) {
  return {.batch_size = spec.param().window_data_param().batch_size(),
          .batch_path = "window_data_param.batch_size",
          .prefetch = spec.param().data_param().prefetch(),
          .deal = spec.phase() == TRAIN};
}

template <typename T>
class WindowData final : public BatchLayer<T> {
 public:
  explicit WindowData(const LayerSpec& spec)
      : BatchLayer<T>(spec, SettingsOf(spec), [spec]() -> std::unique_ptr<const BatchMaker<T>> {
          return std::make_unique<WindowBatches<T>>(spec, SettingsOf(spec));
        }) {
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

}  // namespace
}  // namespace carafe
