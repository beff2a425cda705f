// What happens to an image and the boxes in it between the record and the batch, as SSD defines it:
//   distort_param, expand_param, batch_sampler (or yolo_data_jitter), resize_param, crop_size,
//   mirror, then (pixel - mean_value) * scale
#pragma once

#include <cstdint>
#include <vector>

#include "carafe/base/random.h"
#include "carafe/core/shape.h"
#include "carafe/data/annotations.h"
#include "carafe/data/settings_location.h"
#include "carafe/proto/fork_messages.h"

namespace carafe {

// Constant after construction, so any number of threads may use it.
class AnnotatedTransform {
 public:
  // Throws ConfigError for settings that contradict each other or are not built.
  AnnotatedTransform(const LayerParameter& layer, Phase phase, const SettingsLocation& location);

  // Which resize_param a batch takes, by their prob; 0 without any.
  int DrawResize(RandomSequence* draws) const;
  // What Apply writes for an image (channels, height, width).
  Shape OutputShape(const Shape& image, int resize) const;
  // Writes the image, and returns its boxes.
  template <typename T>
  std::vector<AnnotatedBox> Apply(const Sample& sample, int resize, RandomSequence* draws,
                                  T* out) const;

 private:
  struct Annotated {
    Picture picture;
    std::vector<AnnotatedBox> boxes;
  };
  const EmitConstraint* Constraint() const {
    return fork_.has_emit_constraint() ? &fork_.emit_constraint() : nullptr;
  }
  float Mean(int64_t channel) const;
  void Expand(RandomSequence* draws, Annotated* image) const;
  void TakePart(RandomSequence* draws, Annotated* image) const;
  void Resize(int resize, RandomSequence* draws, Annotated* image) const;
  void Crop(RandomSequence* draws, Annotated* image) const;

  const TransformationParameter param_;
  const ForkTransformationParameter fork_;
  const AnnotatedDataParameter annotated_;
  const Phase phase_;
  const SettingsLocation location_;
};

}  // namespace carafe
