// PNG through libpng. Its errors come by longjmp, so the functions that set a jump hold nothing
// with a destructor.
#include <fmt/format.h>
#include <png.h>
#include <zlib.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <new>

#include "carafe/base/error.h"
#include "carafe/data/picture_codecs.h"

namespace carafe {
namespace {

constexpr int64_t kMostInflation = 1100;  // deflate gives 1032 bytes for one at most
constexpr png_uint_32 kMaxSide = 1 << 20;

struct Errors {
  char message[160] = "";
};

[[noreturn]] void OnError(png_structp png, png_const_charp message) {
  auto* errors = static_cast<Errors*>(png_get_error_ptr(png));
  std::snprintf(errors->message, sizeof(errors->message), "%s", message);
  png_longjmp(png, 1);
}
void OnWarning(png_structp, png_const_charp) {}

struct Decoder {
  explicit Decoder(std::string_view content)
      : rest(content),
        png(png_create_read_struct(PNG_LIBPNG_VER_STRING, &errors, OnError, OnWarning)),
        info(png == nullptr ? nullptr : png_create_info_struct(png)) {
    if (info == nullptr) throw std::bad_alloc();
  }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() { png_destroy_read_struct(&png, &info, nullptr); }

  static void Take(png_structp png, png_bytep to, size_t size) {
    auto* decoder = static_cast<Decoder*>(png_get_io_ptr(png));
    if (size > decoder->rest.size()) png_error(png, "its end is missing");
    std::memcpy(to, decoder->rest.data(), size);
    decoder->rest.remove_prefix(size);
  }
  bool ReadHeader() {
    if (setjmp(png_jmpbuf(png)) != 0) return false;
    png_set_read_fn(png, this, Take);
    png_set_user_limits(png, kMaxSide, kMaxSide);
    png_read_info(png, info);
    height = png_get_image_height(png, info);
    width = png_get_image_width(png, info);
    stored_row_bytes = static_cast<int64_t>(png_get_rowbytes(png, info));
    color_type = png_get_color_type(png, info);
    depth = png_get_bit_depth(png, info);
    has_transparency = png_get_valid(png, info, PNG_INFO_tRNS) != 0;
#ifdef PNG_eXIf_SUPPORTED
    png_uint_32 size = 0;
    png_bytep data = nullptr;
    if (png_get_eXIf_1(png, info, &size, &data) != 0 && data != nullptr) {
      orientation = ExifOrientation({reinterpret_cast<const char*>(data), size});
    }
#endif
    return true;
  }
  // Asks libpng for 8-bit gray, B G R or B G R A; false with a message if that is not what comes.
  bool ReadRows(int64_t channels, png_bytepp rows) {
    if (setjmp(png_jmpbuf(png)) != 0) return false;
    const bool colored = (color_type & PNG_COLOR_MASK_COLOR) != 0;
    png_set_strip_16(png);
    if (channels < 4) {
      png_set_strip_alpha(png);
    } else {
      png_set_tRNS_to_alpha(png);
    }
    if (color_type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
    if (!colored && depth < 8) png_set_expand_gray_1_2_4_to_8(png);
    if (channels > 1) {
      if (colored) {
        png_set_bgr(png);
      } else {
        png_set_gray_to_rgb(png);
      }
    } else if (colored) {
      png_set_rgb_to_gray(png, PNG_ERROR_ACTION_NONE, 0.299, 0.587);
    }
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
    if (static_cast<int64_t>(png_get_rowbytes(png, info)) != width * channels) {
      png_error(png, "its rows have another length than its header says");
    }
    png_read_image(png, rows);
    png_read_end(png, nullptr);
    return true;
  }

  Errors errors;
  std::string_view rest;
  png_structp png;
  png_infop info;
  int64_t height = 0, width = 0, stored_row_bytes = 0;
  int color_type = 0, depth = 0, orientation = 1;
  bool has_transparency = false;
};

int64_t StoredChannels(const Decoder& decoder) {
  switch (decoder.color_type) {
    case PNG_COLOR_TYPE_GRAY:
      return 1;
    case PNG_COLOR_TYPE_RGB:
      return 3;
    case PNG_COLOR_TYPE_PALETTE:
      return decoder.has_transparency ? 4 : 3;
    default:
      return 4;  // with alpha
  }
}

struct Encoder {
  Encoder()
      : png(png_create_write_struct(PNG_LIBPNG_VER_STRING, &errors, OnError, OnWarning)),
        info(png == nullptr ? nullptr : png_create_info_struct(png)) {
    if (info == nullptr) throw std::bad_alloc();
  }
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;
  ~Encoder() { png_destroy_write_struct(&png, &info); }

  static void Append(png_structp png, png_bytep from, size_t size) {
    static_cast<Encoder*>(png_get_io_ptr(png))->bytes.append(reinterpret_cast<char*>(from), size);
  }
  bool Write(const Picture& picture) {
    if (setjmp(png_jmpbuf(png)) != 0) return false;
    png_set_write_fn(png, this, Append, nullptr);
    png_set_compression_level(png, Z_BEST_SPEED);
    const int type = picture.channels == 1   ? PNG_COLOR_TYPE_GRAY
                     : picture.channels == 3 ? PNG_COLOR_TYPE_RGB
                                             : PNG_COLOR_TYPE_RGB_ALPHA;
    png_set_IHDR(png, info, static_cast<png_uint_32>(picture.width),
                 static_cast<png_uint_32>(picture.height), 8, type, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    if (picture.channels > 1) png_set_bgr(png);
    for (int64_t y = 0; y < picture.height; ++y) {
      png_write_row(png, picture.pixels.data() + y * picture.width * picture.channels);
    }
    png_write_end(png, nullptr);
    return true;
  }

  Errors errors;
  std::string bytes;
  png_structp png;
  png_infop info;
};

}  // namespace

Picture DecodePng(std::string_view bytes, PictureMode mode, const PictureOrigin& origin,
                  int* orientation) {
  Decoder decoder(bytes);
  if (!decoder.ReadHeader()) {
    FailDamaged(origin, fmt::format("the PNG cannot be read: {}", decoder.errors.message));
  }
  CheckPictureSize(decoder.height, decoder.width, origin);
  CheckPlausible(decoder.height * decoder.stored_row_bytes, bytes.size(), kMostInflation, origin);
  *orientation = decoder.orientation;
  const int64_t channels = mode == PictureMode::kColor  ? 3
                           : mode == PictureMode::kGray ? 1
                                                        : StoredChannels(decoder);
  Picture picture = NewPicture(decoder.height, decoder.width, channels);
  std::vector<png_bytep> rows;
  for (int64_t y = 0; y < picture.height; ++y) {
    rows.push_back(picture.pixels.data() + y * picture.width * channels);
  }
  if (!decoder.ReadRows(channels, rows.data())) {
    FailDamaged(origin, fmt::format("the PNG cannot be read: {}", decoder.errors.message));
  }
  return picture;
}

std::string EncodePng(const Picture& picture) {
  Encoder encoder;
  if (!encoder.Write(picture)) {
    throw ConfigError(fmt::format("a picture of {}x{} cannot be encoded: {}", picture.height,
                                  picture.width, encoder.errors.message),
                      "use smaller pictures");
  }
  return std::move(encoder.bytes);
}

}  // namespace carafe
