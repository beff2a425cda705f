#include "carafe/data/idx.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "carafe/base/error.h"
#include "carafe/data/database_writer.h"
#include "carafe/proto/messages.h"

namespace carafe {
namespace {

constexpr uint32_t kImageMagic = 0x00000803;  // bytes, 3 axes
constexpr uint32_t kLabelMagic = 0x00000801;  // bytes, 1 axis
constexpr char kGetAgain[] = "get or unpack the file again";

struct CloseGz {
  void operator()(gzFile_s* file) const { gzclose(file); }
};

// zlib reads files that are not gzipped as they are.
class IdxFile {
 public:
  explicit IdxFile(const std::string& path) : path_(path) {
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored)) {
      Fail("this is a folder, not a file", "give the path of an IDX file");
    }
    errno = 0;
    file_.reset(gzopen(path.c_str(), "rb"));
    if (file_ == nullptr) {
      Fail(fmt::format("the file cannot be read: {}", std::strerror(errno)),
           fmt::format("check the path; it was looked for from {}",
                       std::filesystem::current_path().string()));
    }
  }

  uint32_t ReadNumber() {  // big-endian
    uint8_t b[4];
    Read(b, 4);
    return uint32_t{b[0]} << 24 | uint32_t{b[1]} << 16 | uint32_t{b[2]} << 8 | b[3];
  }

  void CheckMagic(uint32_t expected, const char* what) {
    const uint32_t magic = ReadNumber();
    if (magic == expected) return;
    const char* other = magic == kImageMagic   ? "; this one holds images"
                        : magic == kLabelMagic ? "; this one holds labels"
                                               : "";
    Fail(fmt::format("not an IDX file of {}: it begins with {:#010x}, not {:#010x}{}", what, magic,
                     expected, other),
         "check which file is which: images first, then labels");
  }

  // The rest of the file, which must be `bytes` long. Grows as it reads, so that a wild header
  // cannot ask for more memory than there are data.
  std::vector<uint8_t> ReadRest(int64_t bytes) {
    constexpr int64_t kPiece = int64_t{1} << 24;
    std::vector<uint8_t> data;
    while (static_cast<int64_t>(data.size()) < bytes) {
      const size_t have = data.size();
      data.resize(have + static_cast<size_t>(std::min(kPiece, bytes - static_cast<int64_t>(have))));
      Read(data.data() + have, data.size() - have);
    }
    uint8_t extra;
    if (gzread(file_.get(), &extra, 1) > 0) {
      Fail(fmt::format("there are more data than the {} bytes that the header speaks of", bytes),
           kGetAgain);
    }
    return data;
  }

  [[noreturn]] void Fail(const std::string& what, const std::string& fix) const {
    throw DataError(path_, -1, what, fix);
  }

 private:
  void Read(uint8_t* to, size_t bytes) {
    const int got = gzread(file_.get(), to, static_cast<unsigned>(bytes));
    int code = Z_OK;
    const char* message = gzerror(file_.get(), &code);
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)) {
      Fail(fmt::format("reading failed: {}", code == Z_ERRNO ? std::strerror(errno) : message),
           kGetAgain);
    }
    if (static_cast<size_t>(got) < bytes) {
      Fail("the file is cut off: it ends before the data that its header speaks of", kGetAgain);
    }
  }

  const std::string path_;
  std::unique_ptr<gzFile_s, CloseGz> file_;
};

}  // namespace

IdxImages ReadIdxImages(const std::string& path) {
  IdxFile file(path);
  file.CheckMagic(kImageMagic, "images");
  IdxImages images;
  images.count = file.ReadNumber();
  images.height = file.ReadNumber();
  images.width = file.ReadNumber();
  int64_t area = 0, bytes = 0;
  if (images.count == 0 || images.height == 0 || images.width == 0 ||
      __builtin_mul_overflow(images.height, images.width, &area) ||
      __builtin_mul_overflow(area, images.count, &bytes)) {
    file.Fail(fmt::format("the header speaks of {} images of {}x{}", images.count, images.height,
                          images.width),
              kGetAgain);
  }
  images.pixels = file.ReadRest(bytes);
  return images;
}

std::vector<uint8_t> ReadIdxLabels(const std::string& path) {
  IdxFile file(path);
  file.CheckMagic(kLabelMagic, "labels");
  return file.ReadRest(file.ReadNumber());
}

int64_t ConvertMnist(const std::string& images_path, const std::string& labels_path,
                     const std::string& database, const std::string& backend) {
  // First: a refusal should not wait for the reading.
  const std::unique_ptr<DatabaseWriter> writer = NewDatabaseWriter(backend, database);
  const IdxImages images = ReadIdxImages(images_path);
  const std::vector<uint8_t> labels = ReadIdxLabels(labels_path);
  if (images.count != static_cast<int64_t>(labels.size())) {
    throw DataError(labels_path, -1,
                    fmt::format("there are {} labels for the {} images of {}", labels.size(),
                                images.count, images_path),
                    "give the labels that belong to the images");
  }
  Datum datum;
  datum.set_channels(1);
  datum.set_height(static_cast<int>(images.height));
  datum.set_width(static_cast<int>(images.width));
  const auto area = static_cast<size_t>(images.height * images.width);
  for (size_t i = 0; i < labels.size(); ++i) {
    datum.set_data(images.pixels.data() + i * area, area);
    datum.set_label(labels[i]);
    writer->Put(fmt::format("{:08d}", i), datum.SerializeAsString());
  }
  writer->Finish();
  return images.count;
}

}  // namespace carafe
