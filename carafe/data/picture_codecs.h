// What the files of picture_*.cpp offer each other; picture.h is for everybody else.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "carafe/data/picture.h"

namespace carafe {

// Each decodes the kind of file that its name says, without turning it.
Picture DecodeJpeg(std::string_view bytes, PictureMode mode, const PictureOrigin& origin,
                   int* orientation);
Picture DecodePng(std::string_view bytes, PictureMode mode, const PictureOrigin& origin,
                  int* orientation);
Picture DecodeBmp(std::string_view bytes, PictureMode mode, const PictureOrigin& origin);
Picture DecodePnm(std::string_view bytes, PictureMode mode, const PictureOrigin& origin);

std::string EncodeJpeg(const Picture& picture);
std::string EncodePng(const Picture& picture);

// Throws unless the size is that of a sensible picture: 1 to 2^20 a side, at most 2^28 pixels.
void CheckPictureSize(int64_t height, int64_t width, const PictureOrigin& origin);
// Throws DataError where `count` pixels cannot come out of `bytes` bytes at `most` pixels a byte.
void CheckPlausible(int64_t count, size_t bytes, int64_t most, const PictureOrigin& origin);

[[noreturn]] void FailDamaged(const PictureOrigin& origin, const std::string& what);

Picture NewPicture(int64_t height, int64_t width, int64_t channels);

// 0.299 R + 0.587 G + 0.114 B, rounded.
inline uint8_t GrayOf(int blue, int green, int red) {
  return static_cast<uint8_t>((1868 * blue + 9617 * green + 4899 * red + (1 << 13)) >> 14);
}

// The orientation (1 to 8) that a block of EXIF data names, beginning at its TIFF header; 1 where
// it names none or cannot be read.
int ExifOrientation(std::string_view tiff);
Picture TurnedUpright(Picture picture, int orientation);

}  // namespace carafe
