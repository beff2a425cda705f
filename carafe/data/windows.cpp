#include "carafe/data/windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

#include "carafe/base/error.h"
#include "carafe/base/file.h"
#include "carafe/base/index.h"
#include "carafe/data/datum.h"
#include "carafe/data/text_list.h"

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
  Box NextBox() {
    Box box;
    for (int* corner : {&box.x1, &box.y1, &box.x2, &box.y2}) {
      *corner = Next<int>("corner");
      if (std::abs(*corner) > kFarthest) Fail(fmt::format("has the corner {}", *corner));
    }
    if (box.x2 < box.x1 || box.y2 < box.y1) {
      Fail(fmt::format("has a window from ({}, {}) to ({}, {})", box.x1, box.y1, box.x2, box.y2));
    }
    return box;
  }
  template <typename V>
  V Next(const char* what) {
    V value{};
    if (!(text_ >> value)) Fail(fmt::format("has no {} where one should be", what));
    return value;
  }
  [[noreturn]] void Fail(const std::string& what) const {
    throw DataError(path_, image_, what,
                    "an image is: # index, path, channels, height, width, number of windows, and "
                    "for each window: class overlap x1 y1 x2 y2");
  }

 private:
  const std::string path_;
  std::istringstream text_;
  int64_t image_ = -1;
};

// [begin, end] of one axis: the part inside the image, and how much of it lies before and behind.
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

Picture Part(const PictureView& picture, const Span& rows, const Span& columns) {
  Picture part{rows.size(), columns.size(), picture.channels, {}};
  const auto row_bytes = static_cast<size_t>(part.width * part.channels);
  part.pixels.resize(static_cast<size_t>(part.height) * row_bytes);
  for (int64_t y = 0; y < part.height; ++y) {
    const int64_t from = ((rows.begin + y) * picture.width + columns.begin) * picture.channels;
    std::memcpy(part.pixels.data() + static_cast<size_t>(y) * row_bytes, picture.pixels + from,
                row_bytes);
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
  std::vector<Window> background;
  Words words(param.source());
  while (words.NextImage()) {
    const auto image = static_cast<int64_t>(file.images.size());
    file.images.push_back(param.root_folder() + words.Next<std::string>("path"));
    words.Next<int64_t>("number of channels");
    const auto height = words.Next<int64_t>("height"), width = words.Next<int64_t>("width");
    if (image == 0) {
      file.height = height;
      file.width = width;
    }
    const auto count = words.Next<int64_t>("number of windows");
    for (int64_t i = 0; i < count; ++i) {
      Window window{.image = image};
      window.label = words.Next<int>("class");
      const auto overlap = words.Next<float>("overlap");
      window.box = words.NextBox();
      if (overlap >= param.fg_threshold()) {
        if (window.label <= 0) words.Fail("has a window of the foreground with class 0 or below");
        file.windows.push_back(window);
      } else if (overlap < param.bg_threshold()) {
        window.label = 0;
        background.push_back(window);
      }
    }
  }
  if (file.images.empty()) {
    throw DataError(param.source(), -1, "the file names no image",
                    "give a window file as R-CNN writes it");
  }
  file.foreground = static_cast<int64_t>(file.windows.size());
  file.windows.insert(file.windows.end(), background.begin(), background.end());
  return file;
}

class WindowSet::Reader final : public RecordReader {
 public:
  explicit Reader(const WindowSet& set) : set_(set) {}

  const Sample& Read(int64_t index) override {
    const Window& window = At(set_.file_.windows, index);
    const std::string& path = At(set_.file_.images, window.image);
    picture_ = set_.cached_.empty() ? ReadPicture(path, PictureMode::kColor)
                                    : DecodePicture(At(set_.cached_, window.image),
                                                    PictureMode::kColor, {.file = path});
    SetImage(picture_, &image_.image());
    image_.set_label(window.label);
    image_.sample().box = window.box;
    image_.sample().file = path;
    return image_.sample();
  }

 private:
  const WindowSet& set_;
  Picture picture_;
  LabelledImage image_;
};

WindowSet::WindowSet(const WindowDataParameter& param)
    : param_(param), file_(ReadWindowFile(param)) {
  if (!param.cache_images()) return;
  for (const std::string& path : file_.images) cached_.push_back(ReadFile(path));
}

std::string WindowSet::Fingerprint() const { return TextList(param_.source()).Fingerprint(); }

std::string WindowSet::Describe(int64_t index) const {
  const Window& window = At(file_.windows, index);
  return fmt::format("the window ({}, {}) to ({}, {}) of {}", window.box.x1, window.box.y1,
                     window.box.x2, window.box.y2, At(file_.images, window.image));
}

// No image is read: the windows are scaled to one size anyway.
Shapes WindowSet::SampleShapes() const {
  return {{kChannels, std::max<int64_t>(0, file_.height), std::max<int64_t>(0, file_.width)},
          Shape()};
}

std::unique_ptr<RecordReader> WindowSet::NewReader() const {
  return std::make_unique<Reader>(*this);
}

int64_t WindowSet::Choose(bool foreground, uint32_t bits) const {
  const int64_t first = foreground ? 0 : file_.foreground;
  const int64_t count = foreground ? file_.foreground : size() - file_.foreground;
  if (count == 0) {
    throw DataError(
        param_.source(), -1,
        fmt::format("there is no window of the {}", foreground ? "foreground" : "background"),
        "check fg_threshold, bg_threshold and fg_fraction against the file");
  }
  return first + bits % count;
}

WindowCut CutWindow(const PictureView& picture, const Box& window, const WindowShape& shape,
                    bool mirror, const PictureOrigin& origin) {
  // In float, as Caffe computes it: the double result is sometimes rounded the other way.
  const auto crop = static_cast<float>(shape.crop);
  const bool expand = shape.context_pad > 0 || shape.square;
  int64_t x1 = window.x1, y1 = window.y1, x2 = window.x2, y2 = window.y2;
  if (expand) {
    // So that the window itself fills the square between the pads.
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
        fmt::format("the window ({}, {}) to ({}, {}) lies outside the image of {}x{}", window.x1,
                    window.y1, window.x2, window.y2, picture.height, picture.width),
        "make the window file for these images again");
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

namespace {

class WarpWindowStep final : public TransformStep {
 public:
  explicit WarpWindowStep(const WindowShape& shape) : shape_(shape) {}
  Shape OutputShape(const Shape& image) const override {
    return {image[0], shape_.crop, shape_.crop};
  }
  void Apply(const SlotDraws&, ImagePlan* plan) const override {
    WindowCut cut =
        CutWindow(plan->Pixels(), plan->box, shape_, plan->mirror, {.file = plan->file});
    plan->SetPixels(std::move(cut.picture));
    plan->mirror = false;  // it is done
    plan->frame_height = plan->frame_width = shape_.crop;
    plan->top = cut.top;
    plan->left = cut.left;
  }

 private:
  const WindowShape shape_;
};

}  // namespace

NewStep WarpWindow(const WindowShape& shape) { return std::make_unique<WarpWindowStep>(shape); }

}  // namespace carafe
