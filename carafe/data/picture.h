// Pictures of 8 bits a channel: decoded, resized and encoded with the results that Caffe's users
// have from OpenCV (imread, imdecode, resize with INTER_LINEAR, imencode).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace carafe {

// Rows from the top, pixels from the left, channels of a pixel together: gray, or B G R, or B G R
// A.
struct Picture {
  int64_t height = 0, width = 0, channels = 0;
  std::vector<uint8_t> pixels;  // height x width x channels
};

// A picture that is somewhere else.
struct PictureView {
  PictureView(int64_t h, int64_t w, int64_t c, const uint8_t* p)
      : height(h), width(w), channels(c), pixels(p) {}
  PictureView(const Picture& picture)
      : PictureView(picture.height, picture.width, picture.channels, picture.pixels.data()) {}
  int64_t height, width, channels;
  const uint8_t* pixels;  // height x width x channels
};

enum class PictureMode {
  kColor,      // always B G R; turned upright as EXIF says
  kGray,       // always 1 channel; turned upright as EXIF says
  kUnchanged,  // 1, 3 or 4 channels as stored, not turned; 16-bit values lose their lower half
};

// Where a picture comes from, for errors. The views must outlive the call they are given to.
struct PictureOrigin {
  std::string_view file;
  int64_t record = -1;        // of a database, or -1
  std::string_view key = {};  // of that record

  [[noreturn]] void Fail(const std::string& what, const std::string& fix) const;
};

// JPEG, PNG, BMP or PNM, known by its first bytes. Throws DataError for anything that is not a
// whole picture; sizes are judged before memory is asked for.
Picture DecodePicture(std::string_view bytes, PictureMode mode, const PictureOrigin& origin);
Picture ReadPicture(const std::string& path, PictureMode mode);

// Bilinear, pixel centres aligned, in the fixed-point arithmetic of OpenCV. Sizes of 1 or more.
Picture ResizePicture(const PictureView& picture, int64_t height, int64_t width);

// `type` is jpg, jpeg or png, with or without a dot before it; JPEG with quality 95. Throws
// ConfigError for another type, and for what the type cannot hold.
std::string EncodePicture(const Picture& picture, const std::string& type);

// channels x height x width, as a Datum holds them.
std::string PlanesOf(const Picture& picture);

}  // namespace carafe
