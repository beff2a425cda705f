// Pairs of an image and an image of labels, one label per pixel, as SegNet's lists name them.
#pragma once

#include <memory>
#include <string>

#include "carafe/data/dataset.h"

namespace carafe {

struct DenseImageSettings {
  std::string list;    // of lines "image labels"
  std::string root;    // goes before both paths
  bool color = true;   // of the image; labels are gray values
  int64_t height = 0;  // both are resized to it, the labels to the nearest; 0: as they are
  int64_t width = 0;
  int64_t label_divisor = 1;  // labels are so many times smaller (ENet's encoder)
};

// Records are an image (C, H, W) and labels (1, H / divisor, W / divisor). Throws DataError for a
// list that cannot be read, and by record for a pair that cannot, or whose sizes differ.
std::unique_ptr<const DataSet> OpenDenseImages(const DenseImageSettings& settings);

}  // namespace carafe
