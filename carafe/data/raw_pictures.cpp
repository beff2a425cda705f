// One raw file of pictures, as CaffeGPI reads it: header and H x W x C bytes, again and again.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/data/pictures.h"

namespace carafe {
namespace {

class RawPictures final : public Pictures {
 public:
  RawPictures(const CarafeParallelDataParameter& param)
      : path_(param.root_folder() + param.source()),
        header_(param.headersize()),
        height_(param.new_height()),
        width_(param.new_width()),
        channels_(param.is_color() ? 3 : 1) {
    file_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (file_ < 0) {
      throw DataError(
          path_, -1, fmt::format("the file cannot be read: {}", std::strerror(errno)),
          "check source and root_folder; relative paths start at the working directory");
    }
    try {
      CountRecords();
      ReadLabels(param.root_folder() + param.label());
    } catch (...) {
      close(file_);
      throw;
    }
  }
  RawPictures(const RawPictures&) = delete;
  RawPictures& operator=(const RawPictures&) = delete;
  ~RawPictures() override { close(file_); }

  const std::string& name() const override { return path_; }
  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  std::string Describe(int64_t) const override { return "the picture"; }

  DatumView Read(int64_t index, Datum* storage) const override {
    Ensure(index >= 0 && index < size(), "record index out of range");
    Picture picture{height_, width_, channels_, {}};
    picture.pixels.resize(static_cast<size_t>(height_ * width_ * channels_));
    ReadBytes(index, picture.pixels.data(), picture.pixels.size());
    if (channels_ == 3) {  // R G B becomes B G R
      for (size_t i = 0; i < picture.pixels.size(); i += 3) {
        std::swap(picture.pixels[i], picture.pixels[i + 2]);
      }
    }
    storage->set_label(labels_[static_cast<size_t>(index)]);
    return SetPicture(picture, storage);
  }

 private:
  int64_t RecordBytes() const { return header_ + height_ * width_ * channels_; }

  void CountRecords() {
    struct stat status = {};
    const bool plain = fstat(file_, &status) == 0 && S_ISREG(status.st_mode);
    if (!plain || status.st_size == 0 || status.st_size % RecordBytes() != 0) {
      throw DataError(
          path_, -1,
          fmt::format("the file has {} bytes, which is not a whole number of records of {} bytes "
                      "(header {} + {}x{}x{})",
                      plain ? status.st_size : 0, RecordBytes(), header_, height_, width_,
                      channels_),
          "check new_height, new_width, is_color and headerSize against the file");
    }
    count_ = status.st_size / RecordBytes();
  }

  void ReadLabels(const std::string& path) {
    const std::unique_ptr<const Source> list = OpenList(path);
    if (list->size() != count_) {
      throw DataError(
          path, -1,
          fmt::format("there are {} labels for the {} pictures of {}", list->size(), count_, path_),
          "give one label on each line, in the order of the pictures");
    }
    labels_.resize(static_cast<size_t>(count_));
    for (int64_t i = 0; i < count_; ++i) {
      const Record line = list->Read(i);
      const char* last = line.value.data() + line.value.size();
      const size_t first = line.value.find_first_not_of(" \t");
      const auto [end, error] =
          std::from_chars(line.value.data() + first, last, labels_[static_cast<size_t>(i)]);
      if (error != std::errc() || end != last) {
        throw DataError(path, i, fmt::format("({}, \"{}\") is no label", line.key, line.value),
                        "write one whole number on each line");
      }
    }
  }

  void ReadBytes(int64_t index, uint8_t* to, size_t size) const {
    int64_t at = index * RecordBytes() + header_;
    while (size > 0) {
      const ssize_t got = pread(file_, to, size, at);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        throw DataError(path_, index,
                        got < 0 ? fmt::format("reading failed: {}", std::strerror(errno))
                                : std::string("the file has become shorter"),
                        "nobody may write to the file while it is read");
      }
      to += got;
      at += got;
      size -= static_cast<size_t>(got);
    }
  }

  const std::string path_;
  const int64_t header_, height_, width_, channels_;
  int file_ = -1;
  int64_t count_ = 0;
  std::vector<int> labels_;
};

}  // namespace

std::unique_ptr<const Pictures> OpenRawPictures(const CarafeParallelDataParameter& param,
                                                const std::string& path,
                                                const SettingsOwner& owner) {
  constexpr uint32_t kMaxSide = 1 << 20;
  owner.Check(!param.source().empty(), path + ".source", "source is missing",
              "give the path of the file that holds the pictures");
  owner.Check(!param.label().empty(), path + ".label", "label is missing",
              "give the path of a text file with one number on each line");
  owner.Check(
      param.new_height() > 0 && param.new_width() > 0 && param.new_height() <= kMaxSide &&
          param.new_width() <= kMaxSide &&
          uint64_t{param.new_height()} * param.new_width() <= (1u << 28),
      path + ".new_height",
      fmt::format("new_height and new_width say {}x{}", param.new_height(), param.new_width()),
      "give the size that the pictures have in the file");
  return std::make_unique<RawPictures>(param);
}

}  // namespace carafe
