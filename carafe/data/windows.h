// R-CNN's window file: images, and windows in them with a class and an overlap with the ground
// truth.
//   # index / path / channels / height / width / number of windows / class overlap x1 y1 x2 y2 ...
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "carafe/data/dataset.h"
#include "carafe/data/picture.h"
#include "carafe/data/transform_step.h"
#include "carafe/proto/messages.h"

namespace carafe {

struct Window {
  int64_t image = 0;  // index into WindowFile::images
  int label = 0;
  Box box;
};

struct WindowFile {
  std::vector<std::string> images;  // paths, after root_folder
  int64_t height = 0, width = 0;    // of the first image, as the file states them
  std::vector<Window> windows;      // the foreground (overlap >= fg_threshold), and after it the
                                    // background (overlap < bg_threshold; label 0)
  int64_t foreground = 0;           // number of windows of the foreground
};

// Throws DataError with the number of the image within the file.
WindowFile ReadWindowFile(const WindowDataParameter& param);

// The windows as records: the image that a window lies in, its class, and the window as
// Sample::box.
class WindowSet final : public DataSet {
 public:
  static constexpr int64_t kChannels = 3;  // images are read in color

  explicit WindowSet(const WindowDataParameter& param);
  const std::string& name() const override { return param_.source(); }
  int64_t size() const override { return static_cast<int64_t>(file_.windows.size()); }
  std::string Fingerprint() const override;
  std::string Describe(int64_t index) const override;
  Shapes SampleShapes() const override;
  std::unique_ptr<RecordReader> NewReader() const override;

  // A window of the foreground or of the background, chosen by random bits. Throws DataError if
  // there is none.
  int64_t Choose(bool foreground, uint32_t bits) const;

 private:
  class Reader;
  const WindowDataParameter param_;
  const WindowFile file_;
  std::vector<std::string> cached_;  // content of the files; empty: not cached
};

// How a window becomes a square of `crop` pixels.
struct WindowShape {
  int64_t crop = 0;
  int64_t context_pad = 0;  // pixels of the square, on each side, that show the surroundings
  bool square = false;      // the window is widened to a square before it is scaled
};

// The part of the square that the image covers: its pixels and where they begin. The rest, beyond
// the border of the image, stays empty.
struct WindowCut {
  Picture picture;
  int64_t top = 0, left = 0;
};

// Throws DataError for a window that has no pixel in the image.
WindowCut CutWindow(const PictureView& picture, const Box& window, const WindowShape& shape,
                    bool mirror, const PictureOrigin& origin);

// CutWindow as a step. Mirrors by itself, so a mirror step comes before it.
NewStep WarpWindow(const WindowShape& shape);

}  // namespace carafe
