// The steps of a transform. A step that moves or selects pixels, or that computes with each value,
// only edits a plan; one fused loop then reads every pixel once (transform.cpp). Steps that need
// neighbouring pixels (resize, warp) make new ones at once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "carafe/base/random.h"
#include "carafe/core/shape.h"
#include "carafe/data/dataset.h"
#include "carafe/data/mean_file.h"
#include "carafe/data/picture.h"
#include "carafe/data/settings_location.h"

namespace carafe {

// An image on its way through the steps, and what is still to be done with each of its pixels.
// Pixel (c, y, x) is element c * channel_stride + y * row_stride + x * column_stride of `bytes`, or
// of `floats` if that is not null.
struct ImagePlan {
  explicit ImagePlan(const Sample& sample);

  int64_t channels = 0, height = 0, width = 0;
  const uint8_t* bytes = nullptr;
  const float* floats = nullptr;
  int64_t channel_stride = 0, row_stride = 0, column_stride = 0;

  // To be subtracted: `mean_values` per channel (one value serves all), or the pixel of
  // `mean_image` at the same place. Planes, so its column stride is 1.
  std::span<const float> mean_values = {};
  const float* mean_image = nullptr;
  int64_t mean_channel_stride = 0, mean_row_stride = 0;
  float scale = 1;      // to be multiplied with, after that
  bool mirror = false;  // to be reversed from left to right

  // Where the image lies in the output of frame_height x frame_width; the rest becomes zero.
  int64_t frame_height = 0, frame_width = 0, top = 0, left = 0;

  Box box;                // of the sample
  std::string_view file;  // of the sample
  Picture storage;        // holds the pixels that a step has made

  // Selects the part of `rows` x `columns` pixels at (first_row, first_column).
  void Crop(int64_t first_row, int64_t first_column, int64_t rows, int64_t columns);
  // The pixels, for steps that make new ones: only before any step that leaves work to be done.
  PictureView Pixels() const;
  // Replaces the pixels; the frame becomes theirs.
  void SetPixels(Picture picture);
};

// The random draws of one slot, by number of the element.
class SlotDraws {
 public:
  SlotDraws(const RandomKey& key, int64_t slot) : key_(key), slot_(slot) {}
  int64_t Below(int element, int64_t n) const {  // 0 .. n-1
    return static_cast<int64_t>(key_.Bits(slot_, element)) % n;
  }

 private:
  const RandomKey& key_;
  const int64_t slot_;
};

// Constant after construction.
class TransformStep {
 public:
  virtual ~TransformStep() = default;
  // Throws ConfigError for an image that the step cannot take.
  virtual Shape OutputShape(const Shape& image) const { return image; }
  virtual void Apply(const SlotDraws& draws, ImagePlan* plan) const = 0;
};
using NewStep = std::unique_ptr<const TransformStep>;

// Subtracts one value from all channels, or one from each.
NewStep SubtractMeanValues(std::vector<float> values, const SettingsLocation& location);
// Subtracts the pixel at the same place of a mean image, which has the size of the images.
NewStep SubtractMeanImage(MeanImage mean, std::string_view path, const SettingsLocation& location);
// Subtracts the middle of a mean image that is as large as the frame or larger.
NewStep SubtractMeanCentre(MeanImage mean);
// A square of `size` pixels: central, or at random by the draws `row_element` and `column_element`.
NewStep CropCentre(int64_t size, const SettingsLocation& location);
NewStep CropAtRandom(int64_t size, int row_element, int column_element,
                     const SettingsLocation& location);
// Mirrors every second image, by the draw `element`.
NewStep MirrorAtRandom(int element);
NewStep Scale(float factor);
// To this size, bilinear (picture.h). A first step.
NewStep Resize(int64_t height, int64_t width);

}  // namespace carafe
