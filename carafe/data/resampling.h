// Pictures resized by the interpolations that SSD's resize_param names.
#pragma once

#include "carafe/data/picture.h"
#include "carafe/proto/fork_messages.h"

namespace carafe {

// LINEAR is ResizePicture; the others are the separable filters that OpenCV uses under these names,
// in float, rounded: NEAREST, CUBIC (a = -0.75), LANCZOS4 (8 taps), and AREA, the mean of the
// covered pixels (LINEAR where a side grows).
Picture Resample(const PictureView& picture, int64_t height, int64_t width,
                 ResizeParameter::InterpMode mode);

}  // namespace carafe
