// Images with boxes in them: the records of SSD's databases (AnnotatedDatum).
#pragma once

#include <memory>
#include <vector>

#include "carafe/core/corners.h"
#include "carafe/data/database.h"
#include "carafe/data/dataset.h"
#include "carafe/data/picture.h"

namespace carafe {

struct AnnotatedBox {
  int label = 0, instance = 0;
  Corners corners;  // as parts of the image
  bool difficult = false;
};

// Records of two arrays: the image, as interleaved bytes, and boxes (boxes, 7): label, instance,
// x1, y1, x2, y2, difficult. Throws DataError by record for bytes that are no AnnotatedDatum, an
// image of floats, and corners that are no numbers.
std::unique_ptr<const DataSet> NewAnnotatedSet(std::unique_ptr<const Database> database,
                                               PictureMode mode);

// The boxes of a record's second array.
std::vector<AnnotatedBox> BoxesOf(const Sample& sample);

}  // namespace carafe
