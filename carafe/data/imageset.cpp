#include "carafe/data/imageset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/file.h"
#include "carafe/base/log.h"
#include "carafe/base/random.h"
#include "carafe/data/database_writer.h"
#include "carafe/data/datum.h"
#include "carafe/data/image_list.h"

namespace carafe {
namespace {

constexpr int64_t kFilesBetweenReports = 1000;

std::string Lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// What follows the last dot, in small letters.
std::string ExtensionOf(const std::string& path) {
  const size_t dot = path.rfind('.');
  return dot == std::string::npos ? "" : Lower(path.substr(dot + 1));
}

std::string RootOf(const ImagesetOptions& options) {
  std::error_code ignored;
  const bool add = !options.root.empty() && options.root.back() != '/' &&
                   std::filesystem::is_directory(options.root, ignored);
  return options.root + (add ? "/" : "");
}

void CheckOptions(const ImagesetOptions& options) {
  if ((options.resize_height > 0) != (options.resize_width > 0) || options.resize_height < 0 ||
      options.resize_width < 0 || options.resize_height > 65536 || options.resize_width > 65536) {
    throw ConfigError(fmt::format("--resize_height is {} and --resize_width is {}",
                                  options.resize_height, options.resize_width),
                      "give both, from 1 to 65536, or none");
  }
  const std::string type = Lower(options.encode_type);
  if (!type.empty() && type != "jpg" && type != "jpeg" && type != "png") {
    throw ConfigError(fmt::format("pictures cannot be encoded as \"{}\"", options.encode_type),
                      "use jpg, jpeg or png");
  }
}

std::vector<ListedImage> ReadList(const ImagesetOptions& options) {
  const TextList list(options.list);
  std::vector<ListedImage> entries;
  for (int64_t i = 0; i < list.size(); ++i) entries.push_back(ParseListedImage(list, i));
  if (options.shuffle) {
    RandomSequence random(MixSeed(options.seed, HashName("convert_imageset")));
    for (size_t i = entries.size(); i > 1; --i) {
      std::swap(entries[i - 1], entries[random.NextBelow(i)]);
    }
  }
  return entries;
}

// As Caffe: the bytes of the file where it has the wanted type and no new size, else encoded again.
// Encoded records carry no size.
void SetEncoded(const ImagesetOptions& options, const std::string& path, const std::string& file,
                const Picture& picture, Datum* datum) {
  const std::string extension = ExtensionOf(path);
  const std::string type = options.encode_type.empty() ? extension : Lower(options.encode_type);
  const bool same = type == extension || (type == "jpg" && extension == "jpeg");
  datum->set_data(same && options.resize_height == 0 ? file : EncodePicture(picture, type));
  datum->set_encoded(true);
}

std::optional<Datum> DatumOf(const ImagesetOptions& options, const std::string& root,
                             const ListedImage& entry) {
  const std::string path = root + entry.path;
  Datum datum;
  datum.set_label(entry.label);
  try {
    const std::string file = ReadFile(path);
    Picture picture = DecodePicture(file, options.gray ? PictureMode::kGray : PictureMode::kColor,
                                    {.file = path});
    if (options.resize_height > 0) {
      picture = ResizePicture(picture, options.resize_height, options.resize_width);
    }
    if (options.encoded || !options.encode_type.empty()) {
      SetEncoded(options, path, file, picture, &datum);
    } else {
      SetPicture(picture, &datum);
    }
  } catch (const DataError& error) {
    LogError("Could not open or find file {}: {}", path, error.what());
    return std::nullopt;
  }
  return datum;
}

}  // namespace

ImagesetResult ConvertImageset(const ImagesetOptions& options) {
  CheckOptions(options);
  const std::unique_ptr<DatabaseWriter> writer =
      NewDatabaseWriter(options.backend, options.database);
  const std::vector<ListedImage> entries = ReadList(options);
  LogInfo("A total of {} images.", entries.size());
  const std::string root = RootOf(options);
  ImagesetResult result;
  std::optional<size_t> size;
  for (size_t i = 0; i < entries.size(); ++i) {
    const std::optional<Datum> datum = DatumOf(options, root, entries[i]);
    if (!datum) {
      ++result.skipped;
      continue;
    }
    if (!size) size = datum->data().size();
    if (options.check_size && !datum->encoded() && datum->data().size() != *size) {
      throw DataError(options.list, static_cast<int64_t>(i),
                      fmt::format("{} has {} bytes of pixels, those before have {}",
                                  entries[i].path, datum->data().size(), *size),
                      "give pictures of one size, or --resize_height and --resize_width");
    }
    writer->Put(fmt::format("{:08d}_{}", i, entries[i].path), datum->SerializeAsString());
    if (++result.written % kFilesBetweenReports == 0)
      LogInfo("Processed {} files.", result.written);
  }
  if (result.written == 0) {
    throw DataError(
        options.list, -1,
        fmt::format("none of its {} pictures can be read from \"{}\"", entries.size(), root),
        "check the folder; it is put before each path of the list");
  }
  writer->Finish();
  if (result.written % kFilesBetweenReports != 0) LogInfo("Processed {} files.", result.written);
  return result;
}

}  // namespace carafe
