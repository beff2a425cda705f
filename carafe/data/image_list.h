// Lists of image files with labels, as ImageData and convert_imageset read them.
#pragma once

#include <string>

#include "carafe/data/text_list.h"

namespace carafe {

// One line "path label", split at the last blank, so that paths may hold some.
struct ListedImage {
  std::string path;
  int label = 0;
};
// Throws DataError for a line without a whole number at its end.
ListedImage ParseListedImage(const TextList& list, int64_t index);

}  // namespace carafe
