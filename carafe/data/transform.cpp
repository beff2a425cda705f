#include "carafe/data/transform.h"

#include <algorithm>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/proto/fork_messages.h"

namespace carafe {
namespace {

enum Draw { kMirror, kRow, kColumn };

// to(x) = (row(x) - mean(x)) * scale
template <typename T, typename In, typename Mean>
void WriteRow(const In* row, int64_t stride, int64_t width, Mean mean, T scale, T* to) {
  if (stride == 1) {
    for (int64_t x = 0; x < width; ++x) to[x] = (static_cast<T>(row[x]) - mean(x)) * scale;
  } else {
    for (int64_t x = 0; x < width; ++x) to[x] = (static_cast<T>(row[x * stride]) - mean(x)) * scale;
  }
}

// The fused loop: does all that the steps have left to be done, pixel by pixel.
template <typename T, typename In>
void Write(const ImagePlan& plan, const In* in, T* out) {
  const auto scale = static_cast<T>(plan.scale);
  for (int64_t c = 0; c < plan.channels; ++c) {
    T mean_value = 0;
    if (!plan.mean_values.empty()) {
      mean_value = static_cast<T>(At(plan.mean_values, plan.mean_values.size() > 1 ? c : 0));
    }
    for (int64_t y = 0; y < plan.height; ++y) {
      const In* row = in + c * plan.channel_stride + y * plan.row_stride;
      T* to = out + (c * plan.frame_height + plan.top + y) * plan.frame_width + plan.left;
      if (plan.mean_image == nullptr) {
        WriteRow(
            row, plan.column_stride, plan.width, [=](int64_t) { return mean_value; }, scale, to);
      } else {
        const float* mean =
            plan.mean_image + c * plan.mean_channel_stride + y * plan.mean_row_stride;
        WriteRow(
            row, plan.column_stride, plan.width, [=](int64_t x) { return static_cast<T>(mean[x]); },
            scale, to);
      }
      if (plan.mirror) std::reverse(to, to + plan.width);
    }
  }
}

}  // namespace

ImagePlan::ImagePlan(const Sample& sample) : box(sample.box), file(sample.file) {
  const ArrayView& image = sample.arrays[0];
  const std::span<const int64_t> dims = image.shape.dims();
  channels = dims[0];
  frame_height = height = dims[1];
  frame_width = width = dims[2];
  bytes = image.bytes.data();
  floats = image.floats.empty() ? nullptr : image.floats.data();
  channel_stride = image.interleaved ? 1 : height * width;
  column_stride = image.interleaved ? channels : 1;
  row_stride = width * column_stride;
}

void ImagePlan::Crop(int64_t first_row, int64_t first_column, int64_t rows, int64_t columns) {
  const int64_t first = first_row * row_stride + first_column * column_stride;
  if (floats != nullptr) {
    floats += first;
  } else {
    bytes += first;
  }
  if (mean_image != nullptr) mean_image += first_row * mean_row_stride + first_column;
  frame_height = height = rows;
  frame_width = width = columns;
}

PictureView ImagePlan::Pixels() const {
  Ensure(floats == nullptr && channel_stride == 1 && row_stride == width * channels &&
             mean_values.empty() && mean_image == nullptr && scale == 1,
         "a step that makes new pixels must come first, on interleaved bytes");
  return {height, width, channels, bytes};
}

void ImagePlan::SetPixels(Picture picture) {
  storage = std::move(picture);
  channels = storage.channels;
  frame_height = height = storage.height;
  frame_width = width = storage.width;
  bytes = storage.pixels.data();
  channel_stride = 1;
  column_stride = channels;
  row_stride = width * channels;
}

Shape Transform::OutputShape(const Shape& image) const {
  Shape shape = image;
  for (const auto& step : steps_) shape = step->OutputShape(shape);
  return shape;
}

template <typename T>
void Transform::Apply(const Sample& sample, const RandomKey& key, int64_t slot, T* out) const {
  ImagePlan plan(sample);
  const SlotDraws draws(key, slot);
  for (const auto& step : steps_) step->Apply(draws, &plan);
  if (plan.height < plan.frame_height || plan.width < plan.frame_width) {
    std::fill_n(out, plan.channels * plan.frame_height * plan.frame_width, T(0));
  }
  if (plan.floats != nullptr) {
    Write(plan, plan.floats, out);
  } else {
    Write(plan, plan.bytes, out);
  }
}

std::unique_ptr<const Transform> NewTransform(const TransformationParameter& param, Phase phase,
                                              const SettingsLocation& location,
                                              std::vector<NewStep> first) {
  std::vector<NewStep> steps = std::move(first);
  location.Check(!param.has_mean_file() || param.mean_value_size() == 0,
                 "transform_param.mean_value", "mean_file and mean_value are both given",
                 "keep one of the two");
  DecodeMode(param, location);  // checks it
  CheckOwnTransforms(param, location);
  if (param.has_mean_file()) {
    steps.push_back(
        SubtractMeanImage(ReadMeanFile(param.mean_file()), param.mean_file(), location));
  } else if (param.mean_value_size() > 0) {
    steps.push_back(
        SubtractMeanValues({param.mean_value().begin(), param.mean_value().end()}, location));
  }
  if (const int64_t size = param.crop_size(); size > 0) {
    steps.push_back(phase == TRAIN ? CropAtRandom(size, kRow, kColumn, location)
                                   : CropCentre(size, location));
  }
  if (param.mirror()) steps.push_back(MirrorAtRandom(kMirror));
  if (param.scale() != 1) steps.push_back(Scale(param.scale()));
  return std::make_unique<Transform>(std::move(steps));
}

void CheckOwnTransforms(const TransformationParameter& param, const SettingsLocation& location) {
  const auto fork = ForkPart<ForkTransformationParameter>(param);
  const bool given = fork.resize_param_size() > 0 || fork.has_distort_param() ||
                     fork.has_expand_param() || fork.has_emit_constraint();
  location.Check(!given, "transform_param",
                 "resize_param, distort_param, expand_param and emit_constraint are those of SSD's "
                 "AnnotatedData",
                 "remove them, and change the images beforehand");
}

PictureMode DecodeMode(const TransformationParameter& param, const SettingsLocation& location) {
  location.Check(!param.force_color() || !param.force_gray(), "transform_param.force_gray",
                 "force_color and force_gray are both true", "keep one of the two");
  return param.force_color()  ? PictureMode::kColor
         : param.force_gray() ? PictureMode::kGray
                              : PictureMode::kUnchanged;
}

template void Transform::Apply<float>(const Sample&, const RandomKey&, int64_t, float*) const;
template void Transform::Apply<double>(const Sample&, const RandomKey&, int64_t, double*) const;

}  // namespace carafe
