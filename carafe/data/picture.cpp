#include "carafe/data/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "carafe/base/error.h"
#include "carafe/base/file.h"
#include "carafe/data/picture_codecs.h"

namespace carafe {
namespace {

constexpr int64_t kMaxSide = int64_t{1} << 20;
constexpr int64_t kMaxPixels = int64_t{1} << 28;

std::string FirstBytes(std::string_view bytes) {
  std::string text;
  for (const char c : bytes.substr(0, 4)) {
    text += fmt::format("{}{:02x}", text.empty() ? "" : " ", static_cast<uint8_t>(c));
  }
  return text;
}

bool IsPnm(std::string_view bytes) {
  return bytes.size() > 2 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '6' &&
         std::isspace(static_cast<unsigned char>(bytes[2])) != 0;
}

}  // namespace

void PictureOrigin::Fail(const std::string& what, const std::string& fix) const {
  throw DataError(std::string(file), record,
                  record < 0 ? what : fmt::format("(key \"{}\") {}", key, what), fix);
}

void FailDamaged(const PictureOrigin& origin, const std::string& what) {
  origin.Fail(what, "the picture is damaged or not complete; get or make it again");
}

void CheckPictureSize(int64_t height, int64_t width, const PictureOrigin& origin) {
  if (height >= 1 && width >= 1 && height <= kMaxSide && width <= kMaxSide &&
      height * width <= kMaxPixels) {
    return;
  }
  FailDamaged(origin, fmt::format("the picture says that it is {}x{} (height x width); at most {} "
                                  "pixels are allowed",
                                  height, width, kMaxPixels));
}

void CheckPlausible(int64_t count, size_t bytes, int64_t most, const PictureOrigin& origin) {
  constexpr int64_t kAlwaysAllowed = int64_t{1} << 20;
  if (count <= kAlwaysAllowed || count / most <= static_cast<int64_t>(bytes)) return;
  FailDamaged(origin, fmt::format("the picture says that it has {} pixels, which {} bytes cannot "
                                  "hold",
                                  count, bytes));
}

Picture NewPicture(int64_t height, int64_t width, int64_t channels) {
  Picture picture{height, width, channels, {}};
  picture.pixels.resize(static_cast<size_t>(height * width * channels));
  return picture;
}

Picture DecodePicture(std::string_view bytes, PictureMode mode, const PictureOrigin& origin) {
  int orientation = 1;
  Picture picture;
  if (bytes.starts_with("\xff\xd8\xff")) {
    picture = DecodeJpeg(bytes, mode, origin, &orientation);
  } else if (bytes.starts_with("\x89PNG\r\n\x1a\n")) {
    picture = DecodePng(bytes, mode, origin, &orientation);
  } else if (bytes.starts_with("BM")) {
    picture = DecodeBmp(bytes, mode, origin);
  } else if (IsPnm(bytes)) {
    picture = DecodePnm(bytes, mode, origin);
  } else if (bytes.empty()) {
    FailDamaged(origin, "the picture is empty");
  } else {
    origin.Fail(fmt::format("not a picture that can be read: it begins with {}", FirstBytes(bytes)),
                "use JPEG, PNG, BMP or PNM (PPM, PGM, PBM)");
  }
  if (mode == PictureMode::kUnchanged) return picture;
  return TurnedUpright(std::move(picture), orientation);
}

Picture ReadPicture(const std::string& path, PictureMode mode) {
  return DecodePicture(ReadFile(path), mode, {.file = path});
}

std::string EncodePicture(const Picture& picture, const std::string& type) {
  std::string name;
  for (const char c : type) {
    if (c != '.') name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  if (name == "jpg" || name == "jpeg") {
    if (picture.channels != 1 && picture.channels != 3) {
      throw ConfigError(fmt::format("a JPEG cannot hold {} channels", picture.channels),
                        "encode as png");
    }
    return EncodeJpeg(picture);
  }
  if (name == "png") return EncodePng(picture);
  throw ConfigError(fmt::format("pictures cannot be encoded as \"{}\"", type),
                    "use jpg, jpeg or png");
}

std::string PlanesOf(const Picture& picture) {
  std::string planes(picture.pixels.size(), '\0');
  const auto area = static_cast<size_t>(picture.height * picture.width);
  const auto channels = static_cast<size_t>(picture.channels);
  for (size_t c = 0; c < channels; ++c) {
    for (size_t i = 0; i < area; ++i) {
      planes[c * area + i] = static_cast<char>(picture.pixels[i * channels + c]);
    }
  }
  return planes;
}

}  // namespace carafe
