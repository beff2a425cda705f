// JPEG through libjpeg-turbo. Its errors come by longjmp, so the functions that set a jump hold
// nothing with a destructor.
#include <fmt/format.h>

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <memory>

// These need <cstdio> before them.
#include <jpeglib.h>

#include <jerror.h>

#include "carafe/base/error.h"
#include "carafe/data/picture_codecs.h"

namespace carafe {
namespace {

constexpr int kQuality = 95;
constexpr int64_t kMostPixelsPerByte = 1024;  // a block of 64 takes a bit at least
constexpr int kMostScans = 500;               // a bad file may ask for thousands: minutes of work

struct Errors {
  jpeg_error_mgr base;  // first: libjpeg hands out its address
  jmp_buf jump;
  bool cut_off;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void OnError(j_common_ptr info) {
  auto* errors = reinterpret_cast<Errors*>(info->err);
  errors->base.format_message(info, errors->message);
  longjmp(errors->jump, 1);
}

// Warnings are about data that can be shown in spite of them, except for the end that is missing.
void OnMessage(j_common_ptr info, int level) {
  auto* errors = reinterpret_cast<Errors*>(info->err);
  if (level < 0 && errors->base.msg_code == JWRN_JPEG_EOF) errors->cut_off = true;
}

jpeg_error_mgr* Prepare(Errors* errors) {
  jpeg_std_error(&errors->base);
  errors->base.error_exit = OnError;
  errors->base.emit_message = OnMessage;
  errors->cut_off = false;
  return &errors->base;
}

struct Decoder {
  Decoder() {
    info.err = Prepare(&errors);
    jpeg_create_decompress(&info);
  }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() { jpeg_destroy_decompress(&info); }

  bool ReadHeader(std::string_view bytes) {
    if (setjmp(errors.jump) != 0) return false;
    jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    jpeg_save_markers(&info, JPEG_APP0 + 1, 0xffff);
    jpeg_read_header(&info, TRUE);
    return true;
  }
  bool ReadRows(uint8_t* rows, size_t row_bytes) {
    if (setjmp(errors.jump) != 0) return false;
    info.progress = &progress;
    progress.progress_monitor = [](j_common_ptr common) {
      const auto* decoder = reinterpret_cast<j_decompress_ptr>(common);
      if (decoder->input_scan_number > kMostScans) ERREXIT(common, JERR_BAD_PROGRESSION);
    };
    jpeg_start_decompress(&info);
    while (info.output_scanline < info.output_height) {
      JSAMPROW row = rows + info.output_scanline * row_bytes;
      jpeg_read_scanlines(&info, &row, 1);
    }
    jpeg_finish_decompress(&info);
    return true;
  }
  int Orientation() const {
    constexpr std::string_view kExif("Exif\0\0", 6);
    for (const jpeg_marker_struct* marker = info.marker_list; marker != nullptr;
         marker = marker->next) {
      const std::string_view data(reinterpret_cast<const char*>(marker->data), marker->data_length);
      if (marker->marker == JPEG_APP0 + 1 && data.starts_with(kExif)) {
        return ExifOrientation(data.substr(kExif.size()));
      }
    }
    return 1;
  }

  Errors errors;
  jpeg_decompress_struct info;
  jpeg_progress_mgr progress;
};

// Inks as Adobe stores them, inverted: each is what it lets through, black on top.
void FromCmyk(const uint8_t* cmyk, bool gray, int64_t count, uint8_t* out) {
  for (int64_t i = 0; i < count; ++i, cmyk += 4) {
    const int black = cmyk[3];
    const auto light = [&](int ink) { return black - ((255 - ink) * black >> 8); };
    const int red = light(cmyk[0]), green = light(cmyk[1]), blue = light(cmyk[2]);
    if (gray) {
      *out++ = GrayOf(blue, green, red);
    } else {
      *out++ = static_cast<uint8_t>(blue);
      *out++ = static_cast<uint8_t>(green);
      *out++ = static_cast<uint8_t>(red);
    }
  }
}

struct Encoder {
  Encoder() {
    info.err = Prepare(&errors);
    jpeg_create_compress(&info);
  }
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;
  ~Encoder() {
    jpeg_destroy_compress(&info);
    std::free(bytes);
  }
  bool Write(const Picture& picture) {
    if (setjmp(errors.jump) != 0) return false;
    jpeg_mem_dest(&info, &bytes, &size);
    info.image_width = static_cast<JDIMENSION>(picture.width);
    info.image_height = static_cast<JDIMENSION>(picture.height);
    info.input_components = static_cast<int>(picture.channels);
    info.in_color_space = picture.channels == 1 ? JCS_GRAYSCALE : JCS_EXT_BGR;
    jpeg_set_defaults(&info);
    jpeg_set_quality(&info, kQuality, TRUE);
    jpeg_start_compress(&info, TRUE);
    const int64_t row_bytes = picture.width * picture.channels;
    while (info.next_scanline < info.image_height) {
      auto* row = const_cast<JSAMPROW>(picture.pixels.data() + info.next_scanline * row_bytes);
      jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
    return true;
  }

  Errors errors;
  jpeg_compress_struct info;
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
};

}  // namespace

Picture DecodeJpeg(std::string_view bytes, PictureMode mode, const PictureOrigin& origin,
                   int* orientation) {
  const auto decoder = std::make_unique<Decoder>();  // some kilobytes
  if (!decoder->ReadHeader(bytes)) {
    FailDamaged(origin, fmt::format("the JPEG cannot be read: {}", decoder->errors.message));
  }
  jpeg_decompress_struct& info = decoder->info;
  CheckPictureSize(info.image_height, info.image_width, origin);
  CheckPlausible(int64_t{info.image_height} * info.image_width, bytes.size(), kMostPixelsPerByte,
                 origin);
  *orientation = decoder->Orientation();
  const bool inks = info.num_components == 4;
  const bool gray =
      mode == PictureMode::kGray || (mode == PictureMode::kUnchanged && info.num_components == 1);
  info.out_color_space = inks ? JCS_CMYK : gray ? JCS_GRAYSCALE : JCS_EXT_BGR;
  Picture picture = NewPicture(info.image_height, info.image_width, gray ? 1 : 3);
  std::vector<uint8_t> cmyk;
  if (inks) cmyk.resize(static_cast<size_t>(picture.height * picture.width * 4));
  const int64_t channels = inks ? 4 : picture.channels;
  if (!decoder->ReadRows(inks ? cmyk.data() : picture.pixels.data(),
                         static_cast<size_t>(picture.width * channels))) {
    FailDamaged(origin, fmt::format("the JPEG cannot be read: {}", decoder->errors.message));
  }
  if (decoder->errors.cut_off) FailDamaged(origin, "the JPEG is cut off: its end is missing");
  if (inks) FromCmyk(cmyk.data(), gray, picture.height * picture.width, picture.pixels.data());
  return picture;
}

std::string EncodeJpeg(const Picture& picture) {
  const auto encoder = std::make_unique<Encoder>();
  if (!encoder->Write(picture)) {
    throw ConfigError(fmt::format("a picture of {}x{} cannot be encoded: {}", picture.height,
                                  picture.width, encoder->errors.message),
                      "use smaller pictures or encode as png");
  }
  return std::string(reinterpret_cast<const char*>(encoder->bytes), encoder->size);
}

}  // namespace carafe
