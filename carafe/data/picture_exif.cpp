// EXIF's orientation: finding it, and turning a picture upright by it.
#include <cstring>

#include "carafe/data/picture_codecs.h"

namespace carafe {
namespace {

// Numbers of a TIFF block in its own byte order; reading beyond the end gives 0.
class Tiff {
 public:
  explicit Tiff(std::string_view bytes) : bytes_(bytes), big_(bytes.starts_with("MM")) {}
  uint32_t Number(size_t at, size_t size) const {
    if (at > bytes_.size() || bytes_.size() - at < size) return 0;
    uint32_t value = 0;
    for (size_t i = 0; i < size; ++i) {
      const size_t from = big_ ? i : size - 1 - i;
      value = value << 8 | static_cast<uint8_t>(bytes_[at + from]);
    }
    return value;
  }

 private:
  const std::string_view bytes_;
  const bool big_;
};

}  // namespace

int ExifOrientation(std::string_view bytes) {
  constexpr uint32_t kMagic = 42, kOrientation = 0x0112;
  constexpr size_t kEntryBytes = 12;
  if (!bytes.starts_with("II") && !bytes.starts_with("MM")) return 1;
  const Tiff tiff(bytes);
  if (tiff.Number(2, 2) != kMagic) return 1;
  const size_t folder = tiff.Number(4, 4);
  const size_t entries = tiff.Number(folder, 2);
  for (size_t i = 0; i < entries; ++i) {
    const size_t at = folder + 2 + i * kEntryBytes;
    if (at + kEntryBytes > bytes.size()) break;
    if (tiff.Number(at, 2) != kOrientation) continue;
    const uint32_t value = tiff.Number(at + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

// 2: mirrored; 3: half a turn; 4: upside down; 5: rows are columns; 6: needs a quarter turn to the
// right; 7: 5 and half a turn; 8: needs a quarter turn to the left.
Picture TurnedUpright(Picture picture, int orientation) {
  if (orientation <= 1 || orientation > 8) return picture;
  const bool transpose = orientation >= 5;
  const bool flip_rows =
      orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
  const bool flip_columns =
      orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
  Picture turned = NewPicture(transpose ? picture.width : picture.height,
                              transpose ? picture.height : picture.width, picture.channels);
  const auto size = static_cast<size_t>(picture.channels);
  for (int64_t y = 0; y < turned.height; ++y) {
    for (int64_t x = 0; x < turned.width; ++x) {
      const int64_t row = flip_rows ? turned.height - 1 - y : y;
      const int64_t column = flip_columns ? turned.width - 1 - x : x;
      const int64_t from = transpose ? column * picture.width + row : row * picture.width + column;
      std::memcpy(turned.pixels.data() + static_cast<size_t>(y * turned.width + x) * size,
                  picture.pixels.data() + static_cast<size_t>(from) * size, size);
    }
  }
  return turned;
}

}  // namespace carafe
