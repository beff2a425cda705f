// What the layers that pool over regions of interest share: the check of their bottoms.
//   bottoms: features (N, C, H, W), regions (R, 5): the image's index, x1, y1, x2, y2
#pragma once

#include <fmt/format.h>

#include "carafe/kernels/roi.h"
#include "carafe/layers/layer.h"
#include "carafe/proto/fork_messages.h"

namespace carafe {

template <typename T>
class RoiLayer : public Layer<T> {
 public:
  RoiLayer(const LayerSpec& spec, double scale, int64_t pooled_h, int64_t pooled_w)
      : Layer<T>(spec), scale_(scale), pooled_h_(pooled_h), pooled_w_(pooled_w) {}
  bool AllowForceBackward(int bottom) const override { return bottom == 0; }

 protected:
  void CheckBottoms(const Shapes& bottom) const {
    this->spec().Check(bottom[0].rank() == 4, "bottom[0]",
                       fmt::format("{} needs features of 4 axes (N, C, H, W), these are {}",
                                   this->spec().param().type(), bottom[0].ToString()),
                       "reshape the bottom");
    this->spec().Check(
        bottom[1].rank() >= 2 && bottom[1].Count() == bottom[1][0] * 5, "bottom[1]",
        fmt::format("the regions have 5 numbers each (image, x1, y1, x2, y2), these are {}",
                    bottom[1].ToString()),
        "give regions of shape (R, 5)");
  }
  // Throws DataError for a region of an image that is not in the batch.
  void CheckRegions(Stream& stream, Blobs<T> bottom) const {
    const std::vector<T> regions = bottom[1]->DataToHost(stream);
    const T images = static_cast<T>(bottom[0]->shape()[0]);
    for (size_t r = 0; r * 5 < regions.size(); ++r) {
      const T image = regions[r * 5];
      if (image >= 0 && image < images) continue;
      throw DataError(
          fmt::format("layer \"{}\" ({})", this->name(), this->spec().param().type()),
          static_cast<int64_t>(r),
          fmt::format("region {} is of image {}, and the batch has {}", r, image, images),
          "the first number of a region is the index of its image, from 0");
    }
  }
  RoiGeometry GeometryOf(Blobs<T> bottom) const {
    const Shape& x = bottom[0]->shape();
    return {bottom[1]->shape()[0], x[0], x[1], x[2], x[3], pooled_h_, pooled_w_, scale_};
  }
  int64_t pooled_h() const { return pooled_h_; }
  int64_t pooled_w() const { return pooled_w_; }

 private:
  const double scale_;
  const int64_t pooled_h_, pooled_w_;
};

}  // namespace carafe
