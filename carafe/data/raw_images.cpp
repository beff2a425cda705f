// One raw file of images, as CaffeGPI reads it: header and H x W x C bytes, again and again.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/hash.h"
#include "carafe/base/index.h"
#include "carafe/data/datasets.h"
#include "carafe/data/text_list.h"

namespace carafe {
namespace {

class RawImageSet final : public DataSet {
 public:
  explicit RawImageSet(const CarafeParallelDataParameter& param)
      : path_(param.root_folder() + param.source()),
        header_(param.headersize()),
        shape_{param.is_color() ? 3 : 1, param.new_height(), param.new_width()} {
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
  RawImageSet(const RawImageSet&) = delete;
  RawImageSet& operator=(const RawImageSet&) = delete;
  ~RawImageSet() override { close(file_); }

  const std::string& name() const override { return path_; }
  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  std::string Describe(int64_t) const override { return "the image"; }
  Shapes SampleShapes() const override { return {shape_, Shape()}; }
  std::unique_ptr<RecordReader> NewReader() const override;

  // The records have no keys: the number of images, all labels, and the pixels of the first and the
  // last image stand for the file.
  std::string Fingerprint() const override {
    uint64_t hash = Hash64(labels_.data(), labels_.size() * sizeof(int), 0);
    std::vector<uint8_t> pixels;
    for (const int64_t index : {int64_t{0}, size() - 1}) {
      ReadPixels(index, &pixels);
      hash = Hash64(pixels.data(), pixels.size(), hash);
    }
    return fmt::format("{} images of {}, hash {:016x} of labels, first and last image", size(),
                       ArrayView{shape_}.SizeText(), hash);
  }

  const Shape& shape() const { return shape_; }
  int label(int64_t index) const { return At(labels_, index); }

  // The bytes of image `index` as they are in the file.
  void ReadPixels(int64_t index, std::vector<uint8_t>* pixels) const {
    Ensure(index >= 0 && index < size(), "record index out of range");
    pixels->resize(static_cast<size_t>(shape_.Count()));
    std::span<uint8_t> left = *pixels;
    int64_t at = index * RecordBytes() + header_;
    while (!left.empty()) {
      const ssize_t got = pread(file_, left.data(), left.size(), at);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        throw DataError(path_, index,
                        got < 0 ? fmt::format("reading failed: {}", std::strerror(errno))
                                : std::string("the file has become shorter"),
                        "nobody may write to the file while it is read");
      }
      left = left.subspan(static_cast<size_t>(got));
      at += got;
    }
  }

 private:
  int64_t RecordBytes() const { return header_ + shape_.Count(); }

  void CountRecords() {
    struct stat status = {};
    const bool plain = fstat(file_, &status) == 0 && S_ISREG(status.st_mode);
    if (!plain || status.st_size == 0 || status.st_size % RecordBytes() != 0) {
      throw DataError(
          path_, -1,
          fmt::format("the file has {} bytes, which is not a whole number of records of {} bytes "
                      "(header {} + {}x{}x{})",
                      plain ? status.st_size : 0, RecordBytes(), header_, shape_[1], shape_[2],
                      shape_[0]),
          "check new_height, new_width, is_color and headerSize against the file");
    }
    count_ = status.st_size / RecordBytes();
  }

  void ReadLabels(const std::string& path) {
    const TextList list(path);
    if (list.size() != count_) {
      throw DataError(
          path, -1,
          fmt::format("there are {} labels for the {} images of {}", list.size(), count_, path_),
          "give one label on each line, in the order of the images");
    }
    labels_.resize(static_cast<size_t>(count_));
    for (int64_t i = 0; i < count_; ++i) {
      const std::string_view line = list.line(i);
      const char* last = line.data() + line.size();
      const size_t first = line.find_first_not_of(" \t");
      const auto [end, error] = std::from_chars(line.data() + first, last, At(labels_, i));
      if (error != std::errc() || end != last) {
        throw DataError(path, i, fmt::format("({}, \"{}\") is no label", list.Key(i), line),
                        "write one whole number on each line");
      }
    }
  }

  const std::string path_;
  const int64_t header_;
  const Shape shape_;  // (channels, height, width)
  int file_ = -1;
  int64_t count_ = 0;
  std::vector<int> labels_;
};

class RawImageReader final : public RecordReader {
 public:
  explicit RawImageReader(const RawImageSet& set) : set_(set) {
    image_.image().shape = set.shape();
    image_.image().interleaved = true;
  }

  const Sample& Read(int64_t index) override {
    set_.ReadPixels(index, &pixels_);
    if (set_.shape()[0] == 3) {  // R G B becomes B G R
      for (size_t i = 0; i < pixels_.size(); i += 3) std::swap(pixels_[i], pixels_[i + 2]);
    }
    image_.image().bytes = pixels_;
    image_.set_label(set_.label(index));
    return image_.sample();
  }

 private:
  const RawImageSet& set_;
  std::vector<uint8_t> pixels_;
  LabelledImage image_;
};

std::unique_ptr<RecordReader> RawImageSet::NewReader() const {
  return std::make_unique<RawImageReader>(*this);
}

}  // namespace

std::unique_ptr<const DataSet> OpenRawImages(const CarafeParallelDataParameter& param,
                                             const std::string& path,
                                             const SettingsLocation& location) {
  constexpr uint32_t kMaxSide = 1 << 20;
  location.Check(!param.source().empty(), path + ".source", "source is missing",
                 "give the path of the file that holds the images");
  location.Check(!param.label().empty(), path + ".label", "label is missing",
                 "give the path of a text file with one number on each line");
  location.Check(
      param.new_height() > 0 && param.new_width() > 0 && param.new_height() <= kMaxSide &&
          param.new_width() <= kMaxSide &&
          uint64_t{param.new_height()} * param.new_width() <= (1u << 28),
      path + ".new_height",
      fmt::format("new_height and new_width say {}x{}", param.new_height(), param.new_width()),
      "give the size that the images have in the file");
  return std::make_unique<RawImageSet>(param);
}

}  // namespace carafe
