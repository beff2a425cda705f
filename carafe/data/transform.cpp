#include "carafe/data/transform.h"

#include <fmt/format.h>

#include <algorithm>

#include "carafe/base/error.h"

namespace carafe {
namespace {

enum Draw { kMirror, kRow, kColumn };

}  // namespace

Transformer::Transformer(const TransformationParameter& param, Phase phase, SettingsOwner owner)
    : param_(param), phase_(phase), owner_(std::move(owner)) {
  owner_.Check(!param_.has_mean_file() || param_.mean_value_size() == 0,
               "transform_param.mean_value", "mean_file and mean_value are both given",
               "keep one of the two");
  owner_.Check(!param_.force_color() || !param_.force_gray(), "transform_param.force_gray",
               "force_color and force_gray are both true", "keep one of the two");
  if (param_.has_mean_file()) mean_ = ReadMeanFile(param_.mean_file());
}

PictureMode Transformer::picture_mode() const {
  return param_.force_color()  ? PictureMode::kColor
         : param_.force_gray() ? PictureMode::kGray
                               : PictureMode::kUnchanged;
}

Shape Transformer::OutputShape(const DatumView& picture) const {
  const int64_t crop = param_.crop_size();
  owner_.Check(crop <= picture.height && crop <= picture.width, "transform_param.crop_size",
               fmt::format("crop_size is {} but the pictures are {}x{} (height x width)", crop,
                           picture.height, picture.width),
               "use a smaller crop_size or larger pictures");
  owner_.Check(param_.mean_value_size() <= 1 || param_.mean_value_size() == picture.channels,
               "transform_param.mean_value",
               fmt::format("there are {} mean values but the pictures have {} channels",
                           param_.mean_value_size(), picture.channels),
               "give one mean_value, or one for each channel");
  owner_.Check(
      mean_.values.empty() || (mean_.channels == picture.channels &&
                               mean_.height == picture.height && mean_.width == picture.width),
      "transform_param.mean_file",
      fmt::format("the mean image {} is {}x{}x{} but the pictures are {} (before cropping)",
                  param_.mean_file(), mean_.channels, mean_.height, mean_.width,
                  picture.SizeText()),
      "use the mean file of this data set, e.g. made with compute_image_mean");
  return {picture.channels, crop > 0 ? crop : picture.height, crop > 0 ? crop : picture.width};
}

Transformer::Window Transformer::Place(const DatumView& picture, const RandomKey& key,
                                       int64_t slot) const {
  const auto draw = [&](Draw which, int64_t n) {
    return static_cast<int64_t>(key.Bits(slot, which)) % n;
  };
  Window window{0, 0, picture.height, picture.width, param_.mirror() && draw(kMirror, 2) == 1};
  if (param_.crop_size() > 0) {
    window.height = window.width = param_.crop_size();
    const int64_t spare_rows = picture.height - window.height;
    const int64_t spare_columns = picture.width - window.width;
    const bool random = phase_ == TRAIN;
    window.top = random ? draw(kRow, spare_rows + 1) : spare_rows / 2;
    window.left = random ? draw(kColumn, spare_columns + 1) : spare_columns / 2;
  }
  return window;
}

template <typename T, typename In>
void Transformer::Write(const DatumView& picture, const In* in, const Window& window,
                        T* out) const {
  const T scale = param_.scale();
  for (int64_t c = 0; c < picture.channels; ++c) {
    const int which = param_.mean_value_size() > 1 ? static_cast<int>(c) : 0;
    const T mean_value = param_.mean_value_size() > 0 ? param_.mean_value(which) : 0;
    for (int64_t y = 0; y < window.height; ++y) {
      const int64_t first = (c * picture.height + window.top + y) * picture.width + window.left;
      const In* row = in + first;
      T* to = out + (c * window.height + y) * window.width;
      if (mean_.values.empty()) {
        for (int64_t x = 0; x < window.width; ++x) {
          to[x] = (static_cast<T>(row[x]) - mean_value) * scale;
        }
      } else {
        const float* mean = mean_.values.data() + first;
        for (int64_t x = 0; x < window.width; ++x) {
          to[x] = (static_cast<T>(row[x]) - static_cast<T>(mean[x])) * scale;
        }
      }
      if (window.mirror) std::reverse(to, to + window.width);
    }
  }
}

template <typename T>
void Transformer::Apply(const DatumView& picture, const RandomKey& key, int64_t slot,
                        T* out) const {
  const Window window = Place(picture, key, slot);
  if (picture.floats.empty()) {
    Write(picture, picture.bytes.data(), window, out);
  } else {
    Write(picture, picture.floats.data(), window, out);
  }
}

template void Transformer::Apply<float>(const DatumView&, const RandomKey&, int64_t, float*) const;
template void Transformer::Apply<double>(const DatumView&, const RandomKey&, int64_t,
                                         double*) const;

}  // namespace carafe
