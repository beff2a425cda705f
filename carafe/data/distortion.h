// Changes of brightness, contrast, saturation, hue and of the order of channels at random, as SSD
// makes them.
#pragma once

#include "carafe/base/random.h"
#include "carafe/data/picture.h"
#include "carafe/proto/fork_messages.h"

namespace carafe {

// Of a picture of 1 or 3 channels (B G R); gray pictures have no saturation and hue. Contrast comes
// second or last, each in half of the pictures.
void Distort(const DistortionParameter& param, RandomSequence* draws, Picture* picture);

// A pixel in OpenCV's 8-bit form of hue (0 to 180, for 0 to 360 degrees), saturation and value.
struct HueColor {
  float hue = 0, saturation = 0, value = 0;
};
HueColor ToHue(const uint8_t* bgr);
void FromHue(const HueColor& color, uint8_t* bgr);

}  // namespace carafe
