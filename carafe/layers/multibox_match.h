// The given boxes of a batch, and which priors of SSD they are matched with.
#pragma once

#include <vector>

#include "carafe/core/blob.h"
#include "carafe/core/corners.h"
#include "carafe/layers/layer.h"
#include "carafe/proto/fork_messages.h"

namespace carafe {

struct GivenBox {
  int label = 0;
  Corners corners;
  bool difficult = false;
};

// The boxes of each image from rows of 8 numbers: image, class, instance, x1, y1, x2, y2,
// difficult; image -1 is no box. Throws DataError for an image that is not there, for a class that
// is none of num_classes or the background, and for a box without area.
template <typename T>
std::vector<std::vector<GivenBox>> BoxesOf(const LayerSpec& spec, const Blob<T>& blob,
                                           Stream& stream, int64_t images,
                                           const MultiBoxLossParameter& param);

struct BoxMatches {
  // Per prior: the index of its box, -1: none, -2: none, for the prior crosses the border of the
  // image (ignore_cross_boundary_bbox).
  std::vector<int> box;
  std::vector<float> overlap;  // with its box, or the largest with any
  int64_t matched = 0;
};

// `priors` are the corners of all priors; what follows them is not read.
BoxMatches MatchBoxes(const std::vector<float>& priors, const std::vector<GivenBox>& boxes,
                      const MultiBoxLossParameter& param);

}  // namespace carafe
