// Small pictures for tests: every pixel and channel has a value of its own, as far as bytes go.
#pragma once

#include <string>

#include "carafe/base/file.h"
#include "carafe/data/picture.h"

namespace carafe {

inline Picture DrawnPicture(int64_t height, int64_t width, int64_t channels, int first = 0) {
  Picture picture{height, width, channels, {}};
  for (int64_t i = 0; i < height * width * channels; ++i) {
    picture.pixels.push_back(static_cast<uint8_t>(first + i));
  }
  return picture;
}

inline void WritePng(const std::string& path, const Picture& picture) {
  WriteFileAtomically(path, EncodePicture(picture, "png"));
}

}  // namespace carafe
