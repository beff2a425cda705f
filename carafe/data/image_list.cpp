#include "carafe/data/image_list.h"

#include <fmt/format.h>

#include <charconv>

#include "carafe/base/error.h"
#include "carafe/data/datasets.h"
#include "carafe/data/datum.h"

namespace carafe {
namespace {

std::string DescribeLine(const TextList& list, int64_t index) {
  return fmt::format("({}, \"{}\")", list.Key(index), list.line(index));
}

class ImageListReader final : public RecordReader {
 public:
  ImageListReader(const TextList& list, const ImageDataParameter& param)
      : list_(list), param_(param) {}

  const Sample& Read(int64_t index) override {
    const ListedImage entry = ParseListedImage(list_, index);
    picture_ = ReadPicture(param_.root_folder() + entry.path,
                           param_.is_color() ? PictureMode::kColor : PictureMode::kGray);
    SetImage(picture_, &image_.image());
    image_.set_label(entry.label);
    return image_.sample();
  }

 private:
  const TextList& list_;
  const ImageDataParameter& param_;
  Picture picture_;
  LabelledImage image_;
};

class ImageListSet final : public DataSet {
 public:
  explicit ImageListSet(const ImageDataParameter& param) : param_(param), list_(param.source()) {}
  const std::string& name() const override { return list_.path(); }
  int64_t size() const override { return list_.size(); }
  std::string Fingerprint() const override { return list_.Fingerprint(); }
  std::string Describe(int64_t index) const override { return DescribeLine(list_, index); }
  std::unique_ptr<RecordReader> NewReader() const override {
    return std::make_unique<ImageListReader>(list_, param_);
  }

 private:
  const ImageDataParameter param_;
  const TextList list_;
};

}  // namespace

ListedImage ParseListedImage(const TextList& list, int64_t index) {
  const std::string_view line = list.line(index);
  const size_t blank = line.find_last_of(" \t");
  const auto fail = [&](const std::string& what) {
    throw DataError(list.path(), index, fmt::format("{} {}", DescribeLine(list, index), what),
                    "write the path of an image, a blank and its label, a whole number");
  };
  if (blank == std::string_view::npos) fail("has no label");
  ListedImage entry;
  const std::string_view label = line.substr(blank + 1);
  const char* first = label.data() + (label.starts_with('+') ? 1 : 0);
  const char* last = label.data() + label.size();
  const auto [end, error] = std::from_chars(first, last, entry.label);
  if (error != std::errc() || end != last) {
    fail(fmt::format("has the label \"{}\", which is no whole number", label));
  }
  entry.path = line.substr(0, blank);
  return entry;
}

std::unique_ptr<const DataSet> OpenImageList(const ImageDataParameter& param,
                                             const SettingsLocation& location) {
  location.Check(!param.source().empty(), "image_data_param.source", "source is missing",
                 "give the path of a text file with lines \"path label\"");
  return std::make_unique<ImageListSet>(param);
}

}  // namespace carafe
