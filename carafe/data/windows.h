// R-CNN's window file: pictures, and windows in them with a class and an overlap with the truth.
//   # index / path / channels / height / width / number of windows / class overlap x1 y1 x2 y2 ...
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "carafe/data/picture.h"
#include "carafe/proto/messages.h"

namespace carafe {

// Corners are part of the window; they may lie outside the picture.
struct Window {
  int64_t image = 0;  // index into WindowFile::images
  int label = 0;
  int x1 = 0, y1 = 0, x2 = 0, y2 = 0;
};

struct WindowFile {
  std::vector<std::string> images;  // paths, behind root_folder
  int64_t channels = 0;             // that the file speaks of
  std::vector<Window> foreground;   // overlap >= fg_threshold
  std::vector<Window> background;  // overlap < bg_threshold; label 0. What lies between is left out
};

// Throws DataError with the number of the picture within the file.
WindowFile ReadWindowFile(const WindowDataParameter& param);

// How a window becomes a square of `crop` pixels.
struct WindowShape {
  int64_t crop = 0;
  int64_t context_pad = 0;  // pixels of the square, on each side, that show what is around
  bool square = false;      // the window is widened to a square before it is scaled
};

// The part of the square that the picture covers: its pixels and where they begin. The rest, beyond
// the picture's border, stays empty.
struct WindowCut {
  Picture picture;
  int64_t top = 0, left = 0;
};

// Throws DataError for a window that has no pixel in the picture.
WindowCut CutWindow(const Picture& picture, const Window& window, const WindowShape& shape,
                    bool mirror, const PictureOrigin& origin);

}  // namespace carafe
