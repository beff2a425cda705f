// Pooling over regions of interest. A region is 5 numbers: the image's index in the batch, and the
// corners x1, y1, x2, y2 in the coordinates of the net's input, both inclusive.
#pragma once

#include <cstdint>

#include "carafe/core/stream.h"

namespace carafe {

struct RoiGeometry {
  int64_t regions, images;
  int64_t channels, height, width;  // of the features
  int64_t pooled_h, pooled_w;       // of a region's result
  double scale;                     // features per pixel of the net's input
};

// Fast R-CNN: the maximum of each bin, 0 of an empty one. top (regions, channels, pooled_h,
// pooled_w); where (as top) is the position of the maximum in its plane, -1 of an empty bin.
template <typename T>
void RoiMaxForward(Stream& stream, const RoiGeometry& g, const T* x, const T* regions, T* y,
                   T* where);
template <typename T>
void RoiMaxBackward(Stream& stream, const RoiGeometry& g, const T* regions, const T* where,
                    const T* dy, T* dx);

// R-FCN: the mean of bin (i, j) of output channel c is taken from channel (c group + i) group + j.
// top (regions, g.channels / group^2, group, group); pooled_h and pooled_w are the group.
template <typename T>
void RoiPositionForward(Stream& stream, const RoiGeometry& g, const T* x, const T* regions, T* y);
template <typename T>
void RoiPositionBackward(Stream& stream, const RoiGeometry& g, const T* regions, const T* dy,
                         T* dx);

}  // namespace carafe
