#include "carafe/data/distortion.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "carafe/data/box_sampling.h"

namespace carafe {
namespace {

uint8_t ToByte(float x) {
  return static_cast<uint8_t>(std::clamp(std::nearbyint(x), 0.0F, 255.0F));
}

bool Happens(float probability, RandomSequence* draws) {
  return static_cast<float>(draws->NextUniform()) < probability;
}

// x becomes factor x + by.
void ChangeAll(float factor, float by, Picture* picture) {
  for (uint8_t& x : picture->pixels) x = ToByte(factor * static_cast<float>(x) + by);
}

template <typename Change>
void ChangeColors(const Change& change, Picture* picture) {
  if (picture->channels != 3) return;
  for (size_t i = 0; i + 3 <= picture->pixels.size(); i += 3) {
    HueColor color = ToHue(&picture->pixels[i]);
    change(&color);
    FromHue(color, &picture->pixels[i]);
  }
}

void Brightness(const DistortionParameter& param, RandomSequence* draws, Picture* picture) {
  if (!Happens(param.brightness_prob(), draws)) return;
  ChangeAll(1, DrawBetween(-param.brightness_delta(), param.brightness_delta(), draws), picture);
}

void Contrast(const DistortionParameter& param, RandomSequence* draws, Picture* picture) {
  if (!Happens(param.contrast_prob(), draws)) return;
  ChangeAll(DrawBetween(param.contrast_lower(), param.contrast_upper(), draws), 0, picture);
}

void Saturation(const DistortionParameter& param, RandomSequence* draws, Picture* picture) {
  if (!Happens(param.saturation_prob(), draws)) return;
  const float factor = DrawBetween(param.saturation_lower(), param.saturation_upper(), draws);
  ChangeColors([&](HueColor* color) { color->saturation = ToByte(factor * color->saturation); },
               picture);
}

void Hue(const DistortionParameter& param, RandomSequence* draws, Picture* picture) {
  if (!Happens(param.hue_prob(), draws)) return;
  const float by = DrawBetween(-param.hue_delta(), param.hue_delta(), draws);
  ChangeColors([&](HueColor* color) { color->hue = ToByte(color->hue + by); }, picture);
}

void Order(const DistortionParameter& param, RandomSequence* draws, Picture* picture) {
  if (!Happens(param.random_order_prob(), draws) || picture->channels != 3) return;
  std::array<size_t, 3> from = {0, 1, 2};
  for (size_t i = 2; i > 0; --i) std::swap(from[i], from[draws->NextBelow(i + 1)]);
  for (size_t i = 0; i + 3 <= picture->pixels.size(); i += 3) {
    const std::array<uint8_t, 3> old = {picture->pixels[i], picture->pixels[i + 1],
                                        picture->pixels[i + 2]};
    for (size_t c = 0; c < 3; ++c) picture->pixels[i + c] = old[from[c]];
  }
}

}  // namespace

HueColor ToHue(const uint8_t* bgr) {
  const float b = bgr[0], g = bgr[1], r = bgr[2];
  const float value = std::max({b, g, r}), range = value - std::min({b, g, r});
  if (range == 0) return {0, 0, value};
  float sixth = 0;
  if (value == r) {
    sixth = (g - b) / range;
  } else if (value == g) {
    sixth = 2 + (b - r) / range;
  } else {
    sixth = 4 + (r - g) / range;
  }
  if (sixth < 0) sixth += 6;
  return {std::nearbyint(sixth * 30), std::nearbyint(255 * range / value), value};
}

void FromHue(const HueColor& color, uint8_t* bgr) {
  const float sixth = std::fmod(color.hue / 30, 6.0F);
  const float part = sixth - std::floor(sixth), s = color.saturation / 255;
  const float low = color.value * (1 - s), falling = color.value * (1 - s * part),
              rising = color.value * (1 - s * (1 - part)), high = color.value;
  const std::array<std::array<float, 3>, 6> sectors = {{{low, rising, high},
                                                        {low, high, falling},
                                                        {rising, high, low},
                                                        {high, falling, low},
                                                        {high, low, rising},
                                                        {falling, low, high}}};
  const std::array<float, 3>& values = sectors[static_cast<size_t>(sixth) % 6];
  for (size_t c = 0; c < 3; ++c) bgr[c] = ToByte(values[c]);
}

void Distort(const DistortionParameter& param, RandomSequence* draws, Picture* picture) {
  const bool contrast_first = draws->NextUniform() > 0.5;
  Brightness(param, draws, picture);
  if (contrast_first) Contrast(param, draws, picture);
  Saturation(param, draws, picture);
  Hue(param, draws, picture);
  if (!contrast_first) Contrast(param, draws, picture);
  Order(param, draws, picture);
}

}  // namespace carafe
