// BMP (not run-length encoded) and PNM, which need no library.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "carafe/data/picture_codecs.h"

namespace carafe {
namespace {

// Gray or B G R, whatever the mode asks for.
void PutPixel(int blue, int green, int red, int64_t channels, uint8_t* to) {
  if (channels == 1) {
    to[0] = blue == green && green == red ? static_cast<uint8_t>(blue) : GrayOf(blue, green, red);
    return;
  }
  to[0] = static_cast<uint8_t>(blue);
  to[1] = static_cast<uint8_t>(green);
  to[2] = static_cast<uint8_t>(red);
  if (channels == 4) to[3] = 255;
}

uint32_t LittleEndian(std::string_view bytes, size_t at, size_t size) {
  uint32_t value = 0;
  for (size_t i = size; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  return value;
}

struct BmpHeader {
  int64_t height, width, depth, row_bytes;
  bool from_top;
  size_t pixels_at;
  uint32_t compression;
  std::string_view palette;  // of palette_entry bytes each: blue, green, red
  size_t palette_entry;
};

BmpHeader ReadBmpHeader(std::string_view bytes, const PictureOrigin& origin) {
  constexpr size_t kFileHeader = 14, kCoreHeader = 12, kInfoHeader = 40;
  if (bytes.size() < kFileHeader + 4) FailDamaged(origin, "the BMP is cut off in its header");
  const size_t header_size = LittleEndian(bytes, 14, 4);
  const bool core = header_size == kCoreHeader;
  if ((!core && header_size < kInfoHeader) || header_size > 1000 ||
      bytes.size() < kFileHeader + header_size) {
    FailDamaged(origin, fmt::format("the BMP's header says that it has {} bytes", header_size));
  }
  BmpHeader header = {};
  header.pixels_at = LittleEndian(bytes, 10, 4);
  if (core) {
    header.width = LittleEndian(bytes, 18, 2);
    header.height = LittleEndian(bytes, 20, 2);
    header.depth = LittleEndian(bytes, 24, 2);
  } else {
    header.width = static_cast<int32_t>(LittleEndian(bytes, 18, 4));
    header.height = static_cast<int32_t>(LittleEndian(bytes, 22, 4));
    header.depth = LittleEndian(bytes, 28, 2);
    header.compression = LittleEndian(bytes, 30, 4);
  }
  header.from_top = header.height < 0;
  header.height = header.from_top ? -header.height : header.height;
  CheckPictureSize(header.height, header.width, origin);
  header.row_bytes = (header.width * header.depth + 31) / 32 * 4;
  if (header.depth <= 8) {
    header.palette_entry = core ? 3 : 4;
    const size_t at = kFileHeader + header_size;
    const size_t used = core ? 0 : LittleEndian(bytes, 46, 4);
    const size_t most = size_t{1} << header.depth;
    const size_t entries = used == 0 ? most : std::min(used, most);
    if (bytes.size() < at + entries * header.palette_entry) {
      FailDamaged(origin, "the BMP is cut off in its palette");
    }
    header.palette = bytes.substr(at, entries * header.palette_entry);
  }
  if (header.pixels_at > bytes.size() ||
      static_cast<int64_t>(bytes.size() - header.pixels_at) < header.row_bytes * header.height) {
    FailDamaged(origin, "the BMP is cut off: its pixels do not fit in the file");
  }
  return header;
}

bool IsGrayPalette(const BmpHeader& header) {
  for (size_t i = 0; i < header.palette.size(); i += header.palette_entry) {
    const char blue = header.palette[i];
    if (header.palette[i + 1] != blue || header.palette[i + 2] != blue) return false;
  }
  return true;
}

// Words and bits of a PNM.
class PnmReader {
 public:
  PnmReader(std::string_view bytes, const PictureOrigin& origin) : bytes_(bytes), origin_(origin) {}
  char NextChar() {
    if (at_ >= bytes_.size()) FailDamaged(origin_, "the PNM is cut off");
    return bytes_[at_++];
  }
  int64_t NextNumber() {
    char c = SkipBlanks();
    int64_t value = 0;
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) {
      FailDamaged(origin_, "the PNM has something else where a number should be");
    }
    while (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      value = std::min<int64_t>(value * 10 + (c - '0'), INT32_MAX);
      if (at_ == bytes_.size()) break;  // the last number of a text
      c = NextChar();                   // the one blank behind a number goes with it
    }
    return value;
  }
  int NextBit() { return SkipBlanks() == '1' ? 1 : 0; }  // in text, where blanks may be missing
  int64_t left() const { return static_cast<int64_t>(bytes_.size() - at_); }

 private:
  char SkipBlanks() {
    char c = NextChar();
    while (c == '#' || std::isspace(static_cast<unsigned char>(c)) != 0) {
      while (c == '#' && NextChar() != '\n') {
      }
      c = NextChar();
    }
    return c;
  }
  const std::string_view bytes_;
  const PictureOrigin& origin_;
  size_t at_ = 2;  // behind "P6"
};

}  // namespace

Picture DecodeBmp(std::string_view bytes, PictureMode mode, const PictureOrigin& origin) {
  const BmpHeader header = ReadBmpHeader(bytes, origin);
  const bool known_depth = header.depth == 1 || header.depth == 4 || header.depth == 8 ||
                           header.depth == 24 || header.depth == 32;
  constexpr uint32_t kPlain = 0, kBitFields = 3;
  const bool plain =
      header.compression == kPlain || (header.compression == kBitFields && header.depth == 32);
  if (!known_depth || !plain) {
    origin.Fail(fmt::format("a BMP of {} bits with compression {} cannot be read", header.depth,
                            header.compression),
                "save it as PNG, or as BMP without compression");
  }
  const bool alpha = header.depth == 32 && header.compression == kBitFields;
  const bool gray = mode == PictureMode::kGray ||
                    (mode == PictureMode::kUnchanged && header.depth <= 8 && IsGrayPalette(header));
  const int64_t channels = gray ? 1 : mode == PictureMode::kUnchanged && alpha ? 4 : 3;
  Picture picture = NewPicture(header.height, header.width, channels);
  const auto byte = [&](size_t at) { return static_cast<uint8_t>(bytes[at]); };
  for (int64_t y = 0; y < header.height; ++y) {
    const int64_t stored = header.from_top ? y : header.height - 1 - y;
    const size_t row = header.pixels_at + static_cast<size_t>(stored * header.row_bytes);
    uint8_t* to = picture.pixels.data() + y * header.width * channels;
    for (int64_t x = 0; x < header.width; ++x, to += channels) {
      if (header.depth > 8) {
        const size_t at = row + static_cast<size_t>(x * header.depth / 8);
        PutPixel(byte(at), byte(at + 1), byte(at + 2), channels, to);
        if (channels == 4) to[3] = byte(at + 3);
        continue;
      }
      const int64_t bit = x * header.depth;
      const int shift = static_cast<int>(8 - header.depth - bit % 8);
      const auto index = static_cast<size_t>(byte(row + static_cast<size_t>(bit / 8)) >> shift &
                                             ((1 << header.depth) - 1));
      const size_t entry = index * header.palette_entry;
      if (entry >= header.palette.size()) {
        FailDamaged(origin, "the BMP has a pixel that its palette does not");
      }
      const auto part = [&](size_t i) { return static_cast<uint8_t>(header.palette[entry + i]); };
      PutPixel(part(0), part(1), part(2), channels, to);
    }
  }
  return picture;
}

// P1 to P3 are bits, grays and colors as text, P4 to P6 the same in binary. Values of a text are
// scaled to 255; binary bytes are taken as they are, and of two bytes the first.
Picture DecodePnm(std::string_view bytes, PictureMode mode, const PictureOrigin& origin) {
  const int kind = bytes[1] - '0';
  const bool text = kind <= 3, bits = kind == 1 || kind == 4, color = kind == 3 || kind == 6;
  PnmReader reader(bytes, origin);
  const int64_t width = reader.NextNumber(), height = reader.NextNumber();
  CheckPictureSize(height, width, origin);
  const int64_t most = bits ? 1 : reader.NextNumber();
  if (most < 1 || most > 65535) {
    FailDamaged(origin, fmt::format("the PNM says that its largest value is {}", most));
  }
  const int64_t values = color ? 3 : 1;
  const int64_t row_bytes = text   ? (bits ? width : 2 * width * values - 1)
                            : bits ? (width + 7) / 8
                                   : width * values * (most > 255 ? 2 : 1);
  if (reader.left() < row_bytes * height) FailDamaged(origin, "the PNM is cut off");
  const int64_t channels =
      mode == PictureMode::kColor || (mode == PictureMode::kUnchanged && color) ? 3 : 1;
  Picture picture = NewPicture(height, width, channels);
  const auto next = [&]() -> int {
    if (text) return static_cast<int>(std::min(reader.NextNumber(), most) * 255 / most);
    const auto value = static_cast<uint8_t>(reader.NextChar());
    if (most > 255) reader.NextChar();
    return value;
  };
  uint8_t* to = picture.pixels.data();
  for (int64_t y = 0; y < height; ++y) {
    uint8_t packed = 0;
    for (int64_t x = 0; x < width; ++x, to += channels) {
      if (bits) {  // 1 is black
        if (!text && x % 8 == 0) packed = static_cast<uint8_t>(reader.NextChar());
        const int bit = text ? reader.NextBit() : packed >> (7 - x % 8) & 1;
        PutPixel(bit ? 0 : 255, bit ? 0 : 255, bit ? 0 : 255, channels, to);
        continue;
      }
      const int red = next();
      const int green = color ? next() : red, blue = color ? next() : red;
      PutPixel(blue, green, red, channels, to);
    }
  }
  return picture;
}

}  // namespace carafe
