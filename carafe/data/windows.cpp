#include "carafe/data/windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

#include "carafe/base/error.h"
#include "carafe/base/file.h"

namespace carafe {
namespace {

constexpr int kFarthest = 1 << 24;  // corners beyond that are damage, not windows

// The words of the file, one after the other.
class Words {
 public:
  explicit Words(const std::string& path) : path_(path), text_(ReadFile(path)) {}
  bool NextImage() {  // "# index", or the end
    std::string mark;
    if (!(text_ >> mark)) return false;
    ++image_;
    if (mark != "#") Fail(fmt::format("begins with \"{}\" instead of \"# index\"", mark));
    Next<int64_t>("an index");
    return true;
  }
  template <typename V>
  V Next(const char* what) {
    V value{};
    if (!(text_ >> value)) Fail(fmt::format("has no {} where one should be", what));
    return value;
  }
  [[noreturn]] void Fail(const std::string& what) const {
    throw DataError(path_, image_, what,
                    "a picture is: # index, path, channels, height, width, number of windows, and "
                    "for each window: class overlap x1 y1 x2 y2");
  }

 private:
  const std::string path_;
  std::istringstream text_;
  int64_t image_ = -1;
};

// [begin, end] of one axis: the part inside the picture, and how much of it lies before and behind.
struct Span {
  int64_t begin, end;      // inside, both included
  int64_t before, behind;  // outside
  int64_t size() const { return end - begin + 1; }
  int64_t whole() const { return size() + before + behind; }
};

Span Clipped(int64_t begin, int64_t end, int64_t extent) {
  const int64_t before = std::max<int64_t>(0, -begin);
  const int64_t behind = std::max<int64_t>(0, end - extent + 1);
  return {begin + before, end - behind, before, behind};
}

Picture Part(const Picture& picture, const Span& rows, const Span& columns) {
  Picture part{rows.size(), columns.size(), picture.channels, {}};
  const auto row_bytes = static_cast<size_t>(part.width * part.channels);
  part.pixels.resize(static_cast<size_t>(part.height) * row_bytes);
  for (int64_t y = 0; y < part.height; ++y) {
    const int64_t from = ((rows.begin + y) * picture.width + columns.begin) * picture.channels;
    std::memcpy(part.pixels.data() + static_cast<size_t>(y) * row_bytes,
                picture.pixels.data() + from, row_bytes);
  }
  return part;
}

void Mirror(Picture* picture) {
  const auto channels = static_cast<size_t>(picture->channels);
  for (int64_t y = 0; y < picture->height; ++y) {
    uint8_t* row = picture->pixels.data() + y * picture->width * picture->channels;
    for (int64_t a = 0, b = picture->width - 1; a < b; ++a, --b) {
      std::swap_ranges(row + a * picture->channels, row + a * picture->channels + channels,
                       row + b * picture->channels);
    }
  }
}

}  // namespace

WindowFile ReadWindowFile(const WindowDataParameter& param) {
  WindowFile file;
  Words words(param.source());
  while (words.NextImage()) {
    const auto image = static_cast<int64_t>(file.images.size());
    file.images.push_back(param.root_folder() + words.Next<std::string>("path"));
    file.channels = words.Next<int64_t>("number of channels");
    words.Next<int64_t>("height");
    words.Next<int64_t>("width");
    const auto count = words.Next<int64_t>("number of windows");
    for (int64_t i = 0; i < count; ++i) {
      Window window{.image = image};
      window.label = words.Next<int>("class");
      const auto overlap = words.Next<float>("overlap");
      for (int* corner : {&window.x1, &window.y1, &window.x2, &window.y2}) {
        *corner = words.Next<int>("corner");
        if (std::abs(*corner) > kFarthest) words.Fail(fmt::format("has the corner {}", *corner));
      }
      if (window.x2 < window.x1 || window.y2 < window.y1) {
        words.Fail(fmt::format("has a window from ({}, {}) to ({}, {})", window.x1, window.y1,
                               window.x2, window.y2));
      }
      if (overlap >= param.fg_threshold()) {
        if (window.label <= 0) words.Fail("has a window of the foreground with class 0 or below");
        file.foreground.push_back(window);
      } else if (overlap < param.bg_threshold()) {
        window.label = 0;
        file.background.push_back(window);
      }
    }
  }
  if (file.images.empty()) {
    throw DataError(param.source(), -1, "the file names no picture",
                    "give a window file as R-CNN writes it");
  }
  return file;
}

WindowCut CutWindow(const Picture& picture, const Window& window, const WindowShape& shape,
                    bool mirror, const PictureOrigin& origin) {
  // In float, as Caffe computes it: the double result is sometimes rounded the other way.
  const auto crop = static_cast<float>(shape.crop);
  const bool expand = shape.context_pad > 0 || shape.square;
  int64_t x1 = window.x1, y1 = window.y1, x2 = window.x2, y2 = window.y2;
  if (expand) {
    // So that the window itself fills what is left of the square between the pads.
    const float grow = crop / static_cast<float>(shape.crop - 2 * shape.context_pad);
    float half_height = static_cast<float>(y2 - y1 + 1) / 2;
    float half_width = static_cast<float>(x2 - x1 + 1) / 2;
    const float center_x = static_cast<float>(x1) + half_width;
    const float center_y = static_cast<float>(y1) + half_height;
    if (shape.square) half_height = half_width = std::max(half_height, half_width);
    x1 = std::llround(center_x - half_width * grow);
    x2 = std::llround(center_x + half_width * grow);
    y1 = std::llround(center_y - half_height * grow);
    y2 = std::llround(center_y + half_height * grow);
  }
  const Span rows = Clipped(y1, y2, picture.height), columns = Clipped(x1, x2, picture.width);
  const bool outside = rows.before + rows.behind + columns.before + columns.behind > 0;
  if (rows.size() < 1 || columns.size() < 1 || (!expand && outside)) {
    origin.Fail(
        fmt::format("the window ({}, {}) to ({}, {}) lies outside the picture of {}x{}", window.x1,
                    window.y1, window.x2, window.y2, picture.height, picture.width),
        "make the window file for these pictures again");
  }
  // What the visible part and the pads in front of it measure in the square.
  const auto scaled = [&](int64_t length, const Span& span) {
    return std::llround(static_cast<float>(length) * (crop / static_cast<float>(span.whole())));
  };
  WindowCut cut;
  cut.top = scaled(rows.before, rows);
  cut.left = scaled(mirror ? columns.behind : columns.before, columns);
  const int64_t height = std::min<int64_t>(scaled(rows.size(), rows), shape.crop - cut.top);
  const int64_t width = std::min<int64_t>(scaled(columns.size(), columns), shape.crop - cut.left);
  cut.picture.channels = picture.channels;
  if (height < 1 || width < 1) return cut;  // too thin to be seen
  cut.picture = ResizePicture(Part(picture, rows, columns), height, width);
  if (mirror) Mirror(&cut.picture);
  return cut;
}

}  // namespace carafe
