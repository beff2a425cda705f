// What happens to an image between the record and the batch: a list of small steps, run in order.
// Caffe's transform_param is the list mean, crop, mirror, scale, so
//   out(c, y, x) = (in(c, y0 + y, x0 + x or its mirror image) - mean) * scale
// docs/data.md has all of them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "carafe/base/random.h"
#include "carafe/core/shape.h"
#include "carafe/data/dataset.h"
#include "carafe/data/picture.h"
#include "carafe/data/settings_location.h"
#include "carafe/data/transform_step.h"
#include "carafe/proto/messages.h"

namespace carafe {

// Constant after construction, so any number of threads may use it.
class Transform {
 public:
  explicit Transform(std::vector<std::unique_ptr<const TransformStep>> steps)
      : steps_(std::move(steps)) {}

  // The shape of what Apply writes for an image of shape (channels, height, width). Throws
  // ConfigError if a step does not fit the image.
  Shape OutputShape(const Shape& image) const;

  // Writes OutputShape(image).Count() values for the image that is the first array of `sample`. The
  // random draws are elements of the slot, so they depend on neither worker nor thread.
  template <typename T>
  void Apply(const Sample& sample, const RandomKey& key, int64_t slot, T* out) const;

 private:
  const std::vector<std::unique_ptr<const TransformStep>> steps_;
};

// Caffe's transform_param: the steps mean, crop, mirror and scale, as far as asked for. The crop is
// random in TRAIN and central in TEST; mirroring is random in both. Reads mean_file. Throws
// ConfigError for settings that contradict each other, DataError for a mean file that cannot be
// read. Steps in `first` come before.
std::unique_ptr<const Transform> NewTransform(
    const TransformationParameter& param, Phase phase, const SettingsLocation& location,
    std::vector<std::unique_ptr<const TransformStep>> first = {});

// Throws ConfigError for what SSD has added to transform_param: only AnnotatedData does it.
void CheckOwnTransforms(const TransformationParameter& param, const SettingsLocation& location);

// How encoded images are decoded: force_color, force_gray, or as they are stored.
PictureMode DecodeMode(const TransformationParameter& param, const SettingsLocation& location);

}  // namespace carafe
