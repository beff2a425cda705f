#include <fmt/format.h>

#include "carafe/base/error.h"
#include "carafe/data/transform_step.h"

namespace carafe {
namespace {

class MeanValues final : public TransformStep {
 public:
  MeanValues(std::vector<float> values, const SettingsLocation& location)
      : values_(std::move(values)), location_(location) {}
  Shape OutputShape(const Shape& image) const override {
    const auto count = static_cast<int64_t>(values_.size());
    location_.Check(
        count == 1 || count == image[0], "transform_param.mean_value",
        fmt::format("there are {} mean values but the images have {} channels", count, image[0]),
        "give one mean_value, or one for each channel");
    return image;
  }
  void Apply(const SlotDraws&, ImagePlan* plan) const override { plan->mean_values = values_; }

 private:
  const std::vector<float> values_;
  const SettingsLocation location_;
};

void SetMean(const MeanImage& mean, int64_t row, int64_t column, ImagePlan* plan) {
  plan->mean_image = mean.values.data() + row * mean.width + column;
  plan->mean_row_stride = mean.width;
  plan->mean_channel_stride = mean.height * mean.width;
}

class MeanOfImages final : public TransformStep {
 public:
  MeanOfImages(MeanImage mean, std::string_view path, const SettingsLocation& location)
      : mean_(std::move(mean)), path_(path), location_(location) {}
  Shape OutputShape(const Shape& image) const override {
    const Shape size = {mean_.channels, mean_.height, mean_.width};
    location_.Check(size == image, "transform_param.mean_file",
                    fmt::format("the mean image {} is {} but the images are {} (before cropping)",
                                path_, ArrayView{size}.SizeText(), ArrayView{image}.SizeText()),
                    "use the mean file of this data set, e.g. made with compute_image_mean");
    return image;
  }
  void Apply(const SlotDraws&, ImagePlan* plan) const override { SetMean(mean_, 0, 0, plan); }

 private:
  const MeanImage mean_;
  const std::string path_;
  const SettingsLocation location_;
};

class MeanCentre final : public TransformStep {
 public:
  explicit MeanCentre(MeanImage mean) : mean_(std::move(mean)) {}
  void Apply(const SlotDraws&, ImagePlan* plan) const override {
    SetMean(mean_, (mean_.height - plan->frame_height) / 2 + plan->top,
            (mean_.width - plan->frame_width) / 2 + plan->left, plan);
  }

 private:
  const MeanImage mean_;
};

class Crop final : public TransformStep {
 public:
  enum class Place { kCentre, kRandom };
  Crop(int64_t size, Place place, int row_element, int column_element,
       const SettingsLocation& location)
      : size_(size),
        place_(place),
        row_element_(row_element),
        column_element_(column_element),
        location_(location) {}
  Shape OutputShape(const Shape& image) const override {
    location_.Check(size_ <= image[1] && size_ <= image[2], "transform_param.crop_size",
                    fmt::format("crop_size is {} but the images are {}x{} (height x width)", size_,
                                image[1], image[2]),
                    "use a smaller crop_size or larger images");
    return {image[0], size_, size_};
  }
  void Apply(const SlotDraws& draws, ImagePlan* plan) const override {
    const auto first = [&](int64_t extent, int element) {
      const int64_t spare = extent - size_;
      return place_ == Place::kRandom ? draws.Below(element, spare + 1) : spare / 2;
    };
    plan->Crop(first(plan->height, row_element_), first(plan->width, column_element_), size_,
               size_);
  }

 private:
  const int64_t size_;
  const Place place_;
  const int row_element_, column_element_;
  const SettingsLocation location_;
};

class Mirror final : public TransformStep {
 public:
  explicit Mirror(int element) : element_(element) {}
  void Apply(const SlotDraws& draws, ImagePlan* plan) const override {
    plan->mirror = draws.Below(element_, 2) == 1;
  }

 private:
  const int element_;
};

class ScaleStep final : public TransformStep {
 public:
  explicit ScaleStep(float factor) : factor_(factor) {}
  void Apply(const SlotDraws&, ImagePlan* plan) const override { plan->scale = factor_; }

 private:
  const float factor_;
};

class ResizeStep final : public TransformStep {
 public:
  ResizeStep(int64_t height, int64_t width) : height_(height), width_(width) {}
  Shape OutputShape(const Shape& image) const override { return {image[0], height_, width_}; }
  void Apply(const SlotDraws&, ImagePlan* plan) const override {
    if (plan->height == height_ && plan->width == width_) return;
    plan->SetPixels(ResizePicture(plan->Pixels(), height_, width_));
  }

 private:
  const int64_t height_, width_;
};

}  // namespace

NewStep SubtractMeanValues(std::vector<float> values, const SettingsLocation& location) {
  return std::make_unique<MeanValues>(std::move(values), location);
}
NewStep SubtractMeanImage(MeanImage mean, std::string_view path, const SettingsLocation& location) {
  return std::make_unique<MeanOfImages>(std::move(mean), path, location);
}
NewStep SubtractMeanCentre(MeanImage mean) { return std::make_unique<MeanCentre>(std::move(mean)); }
NewStep CropCentre(int64_t size, const SettingsLocation& location) {
  return std::make_unique<Crop>(size, Crop::Place::kCentre, 0, 0, location);
}
NewStep CropAtRandom(int64_t size, int row_element, int column_element,
                     const SettingsLocation& location) {
  return std::make_unique<Crop>(size, Crop::Place::kRandom, row_element, column_element, location);
}
NewStep MirrorAtRandom(int element) { return std::make_unique<Mirror>(element); }
NewStep Scale(float factor) { return std::make_unique<ScaleStep>(factor); }
NewStep Resize(int64_t height, int64_t width) {
  return std::make_unique<ResizeStep>(height, width);
}

}  // namespace carafe
