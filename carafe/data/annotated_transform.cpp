#include "carafe/data/annotated_transform.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "carafe/base/index.h"
#include "carafe/data/box_sampling.h"
#include "carafe/data/distortion.h"
#include "carafe/data/resampling.h"
#include "carafe/data/transform.h"

namespace carafe {
namespace {

constexpr uint32_t kMaxSide = 1 << 16;
constexpr float kMaxExpansion = 64;  // more is a slip of the pen, and much memory

// Copies `from` into `to` with its first pixel at (top, left); what lies outside of `to` is left
// out, so negative places cut a part out of `from`.
void Paste(const PictureView& from, int64_t top, int64_t left, Picture* to) {
  const int64_t first = std::max<int64_t>(0, left), last = std::min(to->width, left + from.width);
  if (last <= first) return;
  const auto bytes = static_cast<size_t>((last - first) * from.channels);
  for (int64_t y = std::max<int64_t>(0, top); y < std::min(to->height, top + from.height); ++y) {
    std::memcpy(to->pixels.data() + (y * to->width + first) * to->channels,
                from.pixels + ((y - top) * from.width + first - left) * from.channels, bytes);
  }
}

Picture Blank(int64_t height, int64_t width, int64_t channels) {
  Picture picture{height, width, channels, {}};
  picture.pixels.resize(static_cast<size_t>(height * width * channels));
  return picture;
}

template <typename Value>
void Fill(const Value& value, Picture* picture) {
  for (size_t i = 0; i < picture->pixels.size(); ++i) {
    const auto channel = static_cast<int64_t>(i) % picture->channels;
    picture->pixels[i] =
        static_cast<uint8_t>(std::clamp(std::nearbyint(value(channel)), 0.0F, 255.0F));
  }
}

void CheckResize(const ForkTransformationParameter& fork, const SettingsLocation& location) {
  const auto check = [&](bool condition, const std::string& what, const std::string& fix) {
    location.Check(condition, "transform_param", what, fix);
  };
  float sum = 0;
  for (const ResizeParameter& resize : fork.resize_param()) {
    check(resize.height() > 0 && resize.width() > 0 && resize.height() <= kMaxSide &&
              resize.width() <= kMaxSide,
          fmt::format("resize_param is to {}x{}", resize.height(), resize.width()),
          "give height and width, at most 65536");
    check(resize.resize_mode() != ResizeParameter::FIT_SMALL_SIZE,
          "resize_mode FIT_SMALL_SIZE is not built", "use WARP or FIT_LARGE_SIZE_AND_PAD");
    check(resize.resize_mode() == ResizeParameter::WARP ||
              resize.pad_mode() == ResizeParameter::CONSTANT,
          "only pad_mode CONSTANT is built", "use pad_mode: CONSTANT with pad_value");
    sum += resize.prob();
  }
  check(fork.resize_param_size() == 0 || std::abs(sum - 1) < 0.01F,
        fmt::format("the prob of the resize_params add up to {}", sum),
        "give them so that they add up to 1");
}

void CheckSamplers(const AnnotatedDataParameter& param, const SettingsLocation& location) {
  const auto check = [&](bool condition, const std::string& what, const std::string& fix) {
    location.Check(condition, "annotated_data_param", what, fix);
  };
  for (const BatchSampler& sampler : param.batch_sampler()) {
    const BoxSampler& box = sampler.sampler();
    check(box.min_scale() > 0 && box.min_scale() <= box.max_scale() && box.max_scale() <= 1,
          fmt::format("a batch_sampler has scales from {} to {}", box.min_scale(), box.max_scale()),
          "use 0 < min_scale <= max_scale <= 1");
    check(box.min_aspect_ratio() > 0 && box.min_aspect_ratio() <= 1 && box.max_aspect_ratio() >= 1,
          fmt::format("a batch_sampler has aspect ratios from {} to {}", box.min_aspect_ratio(),
                      box.max_aspect_ratio()),
          "use 0 < min_aspect_ratio <= 1 <= max_aspect_ratio");
  }
  check(param.yolo_data_type() == 0 || param.yolo_data_type() == 1,
        fmt::format("yolo_data_type is {}", param.yolo_data_type()), "use 0 or 1");
  check(param.yolo_data_jitter() >= 0 && param.yolo_data_jitter() < 1,
        fmt::format("yolo_data_jitter is {}", param.yolo_data_jitter()),
        "use a number from 0 to below 1");
}

}  // namespace

AnnotatedTransform::AnnotatedTransform(const LayerParameter& layer, Phase phase,
                                       const SettingsLocation& location)
    : param_(layer.transform_param()),
      fork_(ForkPart<ForkTransformationParameter>(param_)),
      annotated_(ForkPart<ForkLayerParameter>(layer).annotated_data_param()),
      phase_(phase),
      location_(location) {
  CheckResize(fork_, location);
  CheckSamplers(annotated_, location);
  DecodeMode(param_, location);  // checks it
  location.Check(!param_.has_mean_file(), "transform_param.mean_file",
                 "a mean image does not fit images that are cut and resized",
                 "give mean_value for each channel");
  const ExpansionParameter& expand = fork_.expand_param();
  location.Check(expand.max_expand_ratio() >= 1 && expand.max_expand_ratio() <= kMaxExpansion,
                 "transform_param",
                 fmt::format("max_expand_ratio is {}", expand.max_expand_ratio()), "use 1 to 64");
}

int AnnotatedTransform::DrawResize(RandomSequence* draws) const {
  auto left = static_cast<float>(draws->NextUniform());
  for (int i = 0; i + 1 < fork_.resize_param_size(); ++i) {
    left -= fork_.resize_param(i).prob();
    if (left < 0) return i;
  }
  return std::max(0, fork_.resize_param_size() - 1);
}

Shape AnnotatedTransform::OutputShape(const Shape& image, int resize) const {
  const auto means = static_cast<int64_t>(param_.mean_value_size());
  location_.Check(
      means <= 1 || means == image[0], "transform_param.mean_value",
      fmt::format("there are {} mean values but the images have {} channels", means, image[0]),
      "give one mean_value, or one for each channel");
  int64_t height = image[1], width = image[2];
  if (fork_.resize_param_size() > 0) {
    height = fork_.resize_param(resize).height();
    width = fork_.resize_param(resize).width();
  }
  const int64_t crop = param_.crop_size();
  location_.Check(
      crop <= height && crop <= width, "transform_param.crop_size",
      fmt::format("crop_size is {} but the images are {}x{} (height x width)", crop, height, width),
      "use a smaller crop_size or larger images");
  return crop > 0 ? Shape{image[0], crop, crop} : Shape{image[0], height, width};
}

float AnnotatedTransform::Mean(int64_t channel) const {
  if (param_.mean_value_size() == 0) return 0;
  return param_.mean_value(param_.mean_value_size() == 1 ? 0 : static_cast<int>(channel));
}

// The image lies somewhere in a larger one of mean values.
void AnnotatedTransform::Expand(RandomSequence* draws, Annotated* image) const {
  const ExpansionParameter& expand = fork_.expand_param();
  if (static_cast<float>(draws->NextUniform()) >= expand.prob()) return;
  const float ratio = DrawBetween(1, expand.max_expand_ratio(), draws);
  if (ratio < 1.01F) return;
  const Picture& old = image->picture;
  const auto larger = [&](int64_t side) {
    return static_cast<int64_t>(static_cast<float>(side) * ratio);
  };
  Picture wide = Blank(larger(old.height), larger(old.width), old.channels);
  Fill([&](int64_t channel) { return Mean(channel); }, &wide);
  const auto place = [&](int64_t spare) {
    return static_cast<int64_t>(draws->NextBelow(static_cast<uint64_t>(spare) + 1));
  };
  const int64_t top = place(wide.height - old.height), left = place(wide.width - old.width);
  Paste(old, top, left, &wide);
  const auto h = static_cast<float>(old.height), w = static_cast<float>(old.width);
  const Corners part = {static_cast<float>(-left) / w, static_cast<float>(-top) / h,
                        static_cast<float>(wide.width - left) / w,
                        static_cast<float>(wide.height - top) / h};
  image->boxes = ProjectBoxes(image->boxes, part, Constraint());
  image->picture = std::move(wide);
}

void AnnotatedTransform::TakePart(RandomSequence* draws, Annotated* image) const {
  const bool jitter = annotated_.yolo_data_type() == 1;
  if (!jitter && annotated_.batch_sampler_size() == 0) return;
  const Corners part = jitter ? DrawJitteredPart(annotated_.yolo_data_jitter(), draws)
                              : DrawPart(annotated_.batch_sampler(), image->boxes, draws);
  const Picture& old = image->picture;
  const auto h = static_cast<float>(old.height), w = static_cast<float>(old.width);
  const auto top = static_cast<int64_t>(part.y1 * h), left = static_cast<int64_t>(part.x1 * w);
  const int64_t height = std::clamp<int64_t>(static_cast<int64_t>((part.y2 - part.y1) * h), 1,
                                             old.height - std::min(top, old.height - 1));
  const int64_t width = std::clamp<int64_t>(static_cast<int64_t>((part.x2 - part.x1) * w), 1,
                                            old.width - std::min(left, old.width - 1));
  Picture cut = Blank(height, width, old.channels);
  Paste(old, -top, -left, &cut);
  image->boxes = ProjectBoxes(image->boxes, part, Constraint());
  image->picture = std::move(cut);
}

void AnnotatedTransform::Resize(int resize, RandomSequence* draws, Annotated* image) const {
  if (fork_.resize_param_size() == 0) return;
  const ResizeParameter& param = fork_.resize_param(resize);
  const auto modes = static_cast<uint64_t>(param.interp_mode_size());
  const ResizeParameter::InterpMode mode =
      modes == 0 ? ResizeParameter::LINEAR
                 : param.interp_mode(static_cast<int>(draws->NextBelow(modes)));
  const int64_t height = param.height(), width = param.width();
  const Picture& old = image->picture;
  if (param.resize_mode() == ResizeParameter::WARP) {
    image->picture = Resample(old, height, width, mode);
    return;
  }
  // The whole image, its sides in proportion, between two bars of pad_value.
  const double scale = std::min(static_cast<double>(height) / static_cast<double>(old.height),
                                static_cast<double>(width) / static_cast<double>(old.width));
  const auto side = [&](int64_t length, int64_t most) {
    return std::clamp<int64_t>(static_cast<int64_t>(static_cast<double>(length) * scale), 1, most);
  };
  const Picture inner = Resample(old, side(old.height, height), side(old.width, width), mode);
  Picture framed = Blank(height, width, old.channels);
  Fill(
      [&](int64_t channel) {
        if (param.pad_value_size() == 0) return 0.0F;
        return param.pad_value(channel < param.pad_value_size() ? static_cast<int>(channel) : 0);
      },
      &framed);
  const int64_t top = (height - inner.height) / 2, left = (width - inner.width) / 2;
  Paste(inner, top, left, &framed);
  const auto h = static_cast<float>(inner.height), w = static_cast<float>(inner.width);
  const Corners frame = {static_cast<float>(-left) / w, static_cast<float>(-top) / h,
                         static_cast<float>(width - left) / w,
                         static_cast<float>(height - top) / h};
  image->boxes = ProjectBoxes(image->boxes, frame, nullptr);
  image->picture = std::move(framed);
}

// At random in TRAIN, the middle in TEST. Without crop_size boxes are still clipped to the image.
void AnnotatedTransform::Crop(RandomSequence* draws, Annotated* image) const {
  Corners part = {0, 0, 1, 1};
  if (const int64_t size = param_.crop_size(); size > 0) {
    const Picture& old = image->picture;
    const auto place = [&](int64_t spare) {
      return phase_ == TRAIN
                 ? static_cast<int64_t>(draws->NextBelow(static_cast<uint64_t>(spare) + 1))
                 : spare / 2;
    };
    const int64_t top = place(old.height - size), left = place(old.width - size);
    Picture cut = Blank(size, size, old.channels);
    Paste(old, -top, -left, &cut);
    const auto h = static_cast<float>(old.height), w = static_cast<float>(old.width);
    part = {static_cast<float>(left) / w, static_cast<float>(top) / h,
            static_cast<float>(left + size) / w, static_cast<float>(top + size) / h};
    image->picture = std::move(cut);
  }
  image->boxes = ProjectBoxes(image->boxes, part, Constraint());
}

template <typename T>
std::vector<AnnotatedBox> AnnotatedTransform::Apply(const Sample& sample, int resize,
                                                    RandomSequence* draws, T* out) const {
  const ArrayView& view = sample.arrays[0];
  Annotated image{
      {view.shape[1], view.shape[2], view.shape[0], {view.bytes.begin(), view.bytes.end()}},
      BoxesOf(sample)};
  if (fork_.has_distort_param()) Distort(fork_.distort_param(), draws, &image.picture);
  if (fork_.has_expand_param()) Expand(draws, &image);
  TakePart(draws, &image);
  Resize(resize, draws, &image);
  Crop(draws, &image);
  const bool mirror = param_.mirror() && draws->NextBelow(2) == 1;
  const Picture& picture = image.picture;
  const auto scale = static_cast<T>(param_.scale());
  for (int64_t c = 0; c < picture.channels; ++c) {
    const auto mean = static_cast<T>(Mean(c));
    for (int64_t y = 0; y < picture.height; ++y) {
      const uint8_t* row = picture.pixels.data() + y * picture.width * picture.channels + c;
      for (int64_t x = 0; x < picture.width; ++x) {
        const int64_t from = mirror ? picture.width - 1 - x : x;
        *out++ = (static_cast<T>(row[from * picture.channels]) - mean) * scale;
      }
    }
  }
  if (mirror) {
    for (AnnotatedBox& box : image.boxes) {
      box.corners = {1 - box.corners.x2, box.corners.y1, 1 - box.corners.x1, box.corners.y2};
    }
  }
  return std::move(image.boxes);
}

template std::vector<AnnotatedBox> AnnotatedTransform::Apply(const Sample&, int, RandomSequence*,
                                                             float*) const;
template std::vector<AnnotatedBox> AnnotatedTransform::Apply(const Sample&, int, RandomSequence*,
                                                             double*) const;

}  // namespace carafe
