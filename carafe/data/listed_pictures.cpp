// Picture files that a list names, each with a label.
#include <fmt/format.h>

#include <charconv>

#include "carafe/base/error.h"
#include "carafe/base/file.h"
#include "carafe/data/pictures.h"

namespace carafe {
namespace {

class ListedPictures final : public Pictures {
 public:
  ListedPictures(const ImageDataParameter& param, std::unique_ptr<const Source> list)
      : param_(param), list_(std::move(list)) {}
  const std::string& name() const override { return list_->name(); }
  int64_t size() const override { return list_->size(); }
  DatumView Read(int64_t index, Datum* storage) const override {
    const ListedPicture entry = ReadListedPicture(*list_, index);
    Picture picture = ReadPicture(param_.root_folder() + entry.path,
                                  param_.is_color() ? PictureMode::kColor : PictureMode::kGray);
    if (param_.new_height() > 0) {
      picture = ResizePicture(picture, param_.new_height(), param_.new_width());
    }
    storage->set_label(entry.label);
    return SetPicture(picture, storage);
  }
  std::string Describe(int64_t index) const override {
    const Record line = list_->Read(index);
    return fmt::format("({}, \"{}\")", line.key, line.value);
  }

 private:
  const ImageDataParameter param_;
  const std::unique_ptr<const Source> list_;
};

}  // namespace

ListedPicture ReadListedPicture(const Source& list, int64_t index) {
  const Record line = list.Read(index);
  const size_t blank = line.value.find_last_of(" \t");
  const auto fail = [&](const std::string& what) {
    throw DataError(list.name(), index, fmt::format("({}, \"{}\") {}", line.key, line.value, what),
                    "write the path of a picture, a blank and its label, a whole number");
  };
  if (blank == std::string_view::npos) fail("has no label");
  ListedPicture entry;
  const std::string_view label = line.value.substr(blank + 1);
  const char* first = label.data() + (label.starts_with('+') ? 1 : 0);
  const char* last = label.data() + label.size();
  const auto [end, error] = std::from_chars(first, last, entry.label);
  if (error != std::errc() || end != last) {
    fail(fmt::format("has the label \"{}\", which is no whole number", label));
  }
  entry.path = line.value.substr(0, blank);
  return entry;
}

std::unique_ptr<const Pictures> OpenListedPictures(const ImageDataParameter& param,
                                                   const SettingsOwner& owner) {
  owner.Check(!param.source().empty(), "image_data_param.source", "source is missing",
              "give the path of a text file with lines \"path label\"");
  return std::make_unique<ListedPictures>(param, OpenList(param.source()));
}

}  // namespace carafe
