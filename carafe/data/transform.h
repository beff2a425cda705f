// What happens to a picture between the database and the net, in Caffe's order:
//   out(c, y, x) = (in(c, y0 + y, x0 + x or its mirror) - mean) * scale
// The crop is random in TRAIN and central in TEST; mirroring is random in both.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "carafe/base/random.h"
#include "carafe/core/shape.h"
#include "carafe/data/datum.h"
#include "carafe/data/mean_file.h"
#include "carafe/data/owner.h"
#include "carafe/proto/messages.h"

namespace carafe {

// Constant after construction, so usable by many threads.
class Transformer {
 public:
  // Reads mean_file. Throws ConfigError for settings that contradict each other, DataError for a
  // mean file that cannot be read. `owner` stands for the layer whose transform_param this is.
  Transformer(const TransformationParameter& param, Phase phase, SettingsOwner owner);

  // The shape (c, h, w) of what Apply writes. Throws ConfigError where the settings do not fit the
  // picture: a larger crop, another number of mean values, a mean image of another size.
  Shape OutputShape(const DatumView& picture) const;

  // How encoded pictures are to be decoded: force_color, force_gray, or as they are.
  PictureMode picture_mode() const;

  // Writes OutputShape(picture).Count() values. The draws are elements 0 (mirror), 1 (row) and 2
  // (column) of the slot, so they depend on neither worker nor thread.
  template <typename T>
  void Apply(const DatumView& picture, const RandomKey& key, int64_t slot, T* out) const;

 private:
  struct Window {
    int64_t top, left, height, width;
    bool mirror;
  };
  Window Place(const DatumView& picture, const RandomKey& key, int64_t slot) const;
  template <typename T, typename In>
  void Write(const DatumView& picture, const In* in, const Window& window, T* out) const;

  const TransformationParameter param_;
  const Phase phase_;
  const SettingsOwner owner_;
  MeanImage mean_;  // of mean_file, or empty
};

}  // namespace carafe
