#include "carafe/data/dense_images.h"

#include <fmt/format.h>

#include <utility>

#include "carafe/base/error.h"
#include "carafe/data/datum.h"
#include "carafe/data/picture.h"
#include "carafe/data/text_list.h"

namespace carafe {
namespace {

// Labels must not be mixed: each is that of the source pixel that the target's corner falls into.
Picture ResizeToNearest(const Picture& labels, int64_t height, int64_t width) {
  Picture result{height, width, 1, {}};
  result.pixels.reserve(static_cast<size_t>(height * width));
  for (int64_t y = 0; y < height; ++y) {
    const int64_t row = y * labels.height / height;
    for (int64_t x = 0; x < width; ++x) {
      const int64_t at = row * labels.width + x * labels.width / width;
      result.pixels.push_back(labels.pixels[static_cast<size_t>(at)]);
    }
  }
  return result;
}

class DenseImageReader final : public RecordReader {
 public:
  DenseImageReader(const TextList& list, const DenseImageSettings& settings)
      : list_(list), settings_(settings), sample_{.arrays = std::vector<ArrayView>(2)} {}

  const Sample& Read(int64_t index) override {
    const std::string_view line = list_.line(index);
    const size_t blank = line.find_last_of(" \t");
    const auto fail = [&](const std::string& what, const std::string& fix) {
      throw DataError(list_.path(), index, fmt::format("{}: {}", list_.Key(index), what), fix);
    };
    if (blank == std::string_view::npos) {
      fail("there is one path, not two", "write an image, a blank and its image of labels");
    }
    const std::string_view first = line.substr(0, line.find_last_not_of(" \t", blank) + 1);
    image_ = ReadPicture(settings_.root + std::string(first),
                         settings_.color ? PictureMode::kColor : PictureMode::kGray);
    labels_ = ReadPicture(settings_.root + std::string(line.substr(blank + 1)), PictureMode::kGray);
    if (image_.height != labels_.height || image_.width != labels_.width) {
      fail(fmt::format("the image is {}x{}, its labels are {}x{}", image_.height, image_.width,
                       labels_.height, labels_.width),
           "give labels of the image's size");
    }
    if (settings_.height > 0) image_ = ResizePicture(image_, settings_.height, settings_.width);
    const int64_t height = image_.height / settings_.label_divisor;
    const int64_t width = image_.width / settings_.label_divisor;
    if (height == 0 || width == 0) {
      fail(fmt::format("{}x{} cannot be divided by {}", image_.height, image_.width,
                       settings_.label_divisor),
           "use a smaller label_divide_factor");
    }
    if (height != labels_.height || width != labels_.width) {
      labels_ = ResizeToNearest(labels_, height, width);
    }
    SetImage(image_, &sample_.arrays[0]);
    SetImage(labels_, &sample_.arrays[1]);
    return sample_;
  }

 private:
  const TextList& list_;
  const DenseImageSettings& settings_;
  Picture image_, labels_;
  Sample sample_;
};

class DenseImageSet final : public DataSet {
 public:
  explicit DenseImageSet(const DenseImageSettings& settings)
      : settings_(settings), list_(settings.list) {}
  const std::string& name() const override { return list_.path(); }
  int64_t size() const override { return list_.size(); }
  std::string Fingerprint() const override { return list_.Fingerprint(); }
  std::string Describe(int64_t index) const override {
    return fmt::format("({}, \"{}\")", list_.Key(index), list_.line(index));
  }
  std::unique_ptr<RecordReader> NewReader() const override {
    return std::make_unique<DenseImageReader>(list_, settings_);
  }

 private:
  const DenseImageSettings settings_;
  const TextList list_;
};

}  // namespace

std::unique_ptr<const DataSet> OpenDenseImages(const DenseImageSettings& settings) {
  return std::make_unique<DenseImageSet>(settings);
}

}  // namespace carafe
