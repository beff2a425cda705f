// Pictures of every kind, whole and broken. PNGs with unusual settings are put together here.
#include "carafe/data/picture.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>

#include "carafe/base/error.h"
#include "carafe/base/random.h"
#include "tests/support/drawn_picture.h"
#include "tests/support/error_text.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr PictureOrigin kOrigin{.file = "file"};

Picture Decode(const std::string& bytes, PictureMode mode) {
  return DecodePicture(bytes, mode, kOrigin);
}

std::string BigEndian(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

std::string Chunk(const std::string& type, const std::string& data) {
  const std::string body = type + data;
  const auto crc =
      crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return BigEndian(static_cast<uint32_t>(data.size())) + body +
         BigEndian(static_cast<uint32_t>(crc));
}

// `rows` holds the bytes of each row as PNG stores them, without the byte of the filter.
std::string Png(uint32_t width, int depth, int color_type, const std::vector<std::string>& rows,
                const std::string& chunks = "") {
  std::string raw;
  for (const std::string& row : rows) raw += '\0' + row;
  std::string packed(compressBound(raw.size()), '\0');
  uLongf size = packed.size();
  compress(reinterpret_cast<Bytef*>(packed.data()), &size,
           reinterpret_cast<const Bytef*>(raw.data()), raw.size());
  packed.resize(size);
  std::string header = BigEndian(width) + BigEndian(static_cast<uint32_t>(rows.size()));
  header += static_cast<char>(depth);
  header += static_cast<char>(color_type);
  header += std::string(3, '\0');
  return "\x89PNG\r\n\x1a\n" + Chunk("IHDR", header) + chunks + Chunk("IDAT", packed) +
         Chunk("IEND", "");
}

// A TIFF block that says nothing but the orientation.
std::string Exif(int orientation, bool big) {
  using std::string_literals::operator""s;
  const char value = static_cast<char>(orientation);
  if (big) return "MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0"s + value + "\0\0\0\0\0\0"s;
  return "II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0"s + value + "\0\0\0\0\0\0\0"s;
}

std::string WithExif(const std::string& jpeg, const std::string& tiff) {
  using std::string_literals::operator""s;
  const std::string data = "Exif\0\0"s + tiff;
  const auto length = static_cast<uint32_t>(data.size() + 2);
  return jpeg.substr(0, 2) + "\xff\xe1" + BigEndian(length).substr(2) + data + jpeg.substr(2);
}

double LargestDifference(const Picture& a, const Picture& b) {
  double largest = 0;
  for (size_t i = 0; i < a.pixels.size(); ++i) {
    largest = std::max(largest, std::fabs(static_cast<double>(a.pixels[i]) - b.pixels[i]));
  }
  return largest;
}

TEST(Picture, PngKeepsEveryPixel) {
  for (const int64_t channels : {1, 3, 4}) {
    const Picture drawn = DrawnPicture(5, 7, channels);
    const Picture read = Decode(EncodePicture(drawn, "png"), PictureMode::kUnchanged);
    EXPECT_EQ(read.channels, channels);
    EXPECT_EQ(read.height, 5);
    EXPECT_EQ(read.width, 7);
    EXPECT_EQ(read.pixels, drawn.pixels);
  }
}

TEST(Picture, JpegComesBackNearlyTheSame) {
  Picture smooth{24, 40, 3, {}};
  for (int y = 0; y < 24; ++y) {
    for (int x = 0; x < 40; ++x) {
      smooth.pixels.push_back(static_cast<uint8_t>(40 + 4 * x));
      smooth.pixels.push_back(static_cast<uint8_t>(20 + 4 * x + y));
      smooth.pixels.push_back(static_cast<uint8_t>(60 + 3 * x + 2 * y));
    }
  }
  const std::string jpeg = EncodePicture(smooth, ".JPG");
  const Picture read = Decode(jpeg, PictureMode::kColor);
  EXPECT_EQ(read.height, 24);
  EXPECT_EQ(read.width, 40);
  EXPECT_LE(LargestDifference(smooth, read), 8);
  const Picture gray = Decode(jpeg, PictureMode::kGray);
  ASSERT_EQ(gray.channels, 1);
  EXPECT_NEAR(gray.pixels[0], 0.114 * 40 + 0.587 * 20 + 0.299 * 60, 4);
  EXPECT_EQ(Decode(EncodePicture(gray, "jpeg"), PictureMode::kUnchanged).channels, 1);
  EXPECT_EQ(Decode(EncodePicture(gray, "jpeg"), PictureMode::kColor).channels, 3);
}

TEST(Picture, ConvertsGrayAndColorAsAsked) {
  const Picture color{1, 2, 3, {10, 20, 30, 255, 0, 100}};  // B G R
  const std::string png = EncodePicture(color, "png");
  // 21.85 and 58.97: libpng, and so OpenCV, cuts off what lies behind the point.
  EXPECT_THAT(Decode(png, PictureMode::kGray).pixels, ElementsAre(21, 58));
  const Picture gray{1, 2, 1, {7, 200}};
  EXPECT_THAT(Decode(EncodePicture(gray, "png"), PictureMode::kColor).pixels,
              ElementsAre(7, 7, 7, 200, 200, 200));
}

TEST(Picture, UnderstandsTheKindsOfPng) {
  using std::string_literals::operator""s;
  // 16 bits: the upper byte counts.
  const std::string deep = Png(2, 16, 0, {"\x12\x34\xff\x00"s});
  EXPECT_THAT(Decode(deep, PictureMode::kUnchanged).pixels, ElementsAre(0x12, 0xff));
  EXPECT_THAT(Decode(deep, PictureMode::kColor).pixels,
              ElementsAre(0x12, 0x12, 0x12, 0xff, 0xff, 0xff));
  // 1 bit of gray.
  EXPECT_THAT(Decode(Png(3, 1, 0, {"\xa0"}), PictureMode::kUnchanged).pixels,
              ElementsAre(255, 0, 255));
  // Gray and alpha: four channels as it is, no alpha as color.
  const std::string alpha = Png(1, 8, 4, {"\x50\x80"});
  EXPECT_THAT(Decode(alpha, PictureMode::kUnchanged).pixels, ElementsAre(80, 80, 80, 128));
  EXPECT_THAT(Decode(alpha, PictureMode::kColor).pixels, ElementsAre(80, 80, 80));
  EXPECT_THAT(Decode(alpha, PictureMode::kGray).pixels, ElementsAre(80));
  // A palette, without and with transparency.
  const std::string palette = Chunk("PLTE", "\x01\x02\x03\x0a\x14\x1e");
  EXPECT_THAT(Decode(Png(2, 8, 3, {"\x01\x00"s}, palette), PictureMode::kUnchanged).pixels,
              ElementsAre(30, 20, 10, 3, 2, 1));
  const std::string clear = Png(2, 8, 3, {"\x01\x00"s}, palette + Chunk("tRNS", "\x40"));
  EXPECT_THAT(Decode(clear, PictureMode::kUnchanged).pixels,
              ElementsAre(30, 20, 10, 255, 3, 2, 1, 64));
  EXPECT_THAT(Decode(clear, PictureMode::kColor).pixels, ElementsAre(30, 20, 10, 3, 2, 1));
}

TEST(Picture, TurnsPicturesUprightAsExifSays) {
  // 1 2 3 / 4 5 6 as stored, and what a viewer shows.
  const std::vector<uint8_t> shown[9] = {
      {},
      {1, 2, 3, 4, 5, 6},
      {3, 2, 1, 6, 5, 4},
      {6, 5, 4, 3, 2, 1},
      {4, 5, 6, 1, 2, 3},
      {1, 4, 2, 5, 3, 6},
      {4, 1, 5, 2, 6, 3},
      {6, 3, 5, 2, 4, 1},
      {3, 6, 2, 5, 1, 4},
  };
  for (int orientation = 1; orientation <= 8; ++orientation) {
    for (const bool big : {false, true}) {
      const std::string png =
          Png(3, 8, 0, {"\x01\x02\x03", "\x04\x05\x06"}, Chunk("eXIf", Exif(orientation, big)));
      const Picture picture = Decode(png, PictureMode::kGray);
      EXPECT_EQ(picture.pixels, shown[orientation]) << orientation;
      EXPECT_EQ(picture.width, orientation < 5 ? 3 : 2);
      EXPECT_EQ(Decode(png, PictureMode::kUnchanged).pixels, shown[1]);
    }
  }
  const std::string jpeg = EncodePicture(DrawnPicture(8, 16, 1), "jpg");
  EXPECT_EQ(Decode(WithExif(jpeg, Exif(6, true)), PictureMode::kColor).width, 8);
  EXPECT_EQ(Decode(WithExif(jpeg, Exif(9, true)), PictureMode::kColor).width, 16);
  EXPECT_EQ(Decode(WithExif(jpeg, Exif(6, false)), PictureMode::kUnchanged).width, 16);
}

TEST(Picture, ReadsPnm) {
  using std::string_literals::operator""s;
  EXPECT_THAT(Decode("P6 # note\n2 1\n255\n\x01\x02\x03\x04\x05\x06", PictureMode::kColor).pixels,
              ElementsAre(3, 2, 1, 6, 5, 4));
  EXPECT_THAT(Decode("P5\n2 1 255\n\x07\x08", PictureMode::kUnchanged).pixels, ElementsAre(7, 8));
  EXPECT_THAT(Decode("P5\n2 1 65535\n\x07\x08\x09\x0a", PictureMode::kGray).pixels,
              ElementsAre(7, 9));
  EXPECT_THAT(Decode("P2\n2 1\n3\n0 3", PictureMode::kColor).pixels,
              ElementsAre(0, 0, 0, 255, 255, 255));
  EXPECT_THAT(Decode("P3\n1 1\n255\n1 2 3\n", PictureMode::kColor).pixels, ElementsAre(3, 2, 1));
  EXPECT_THAT(Decode("P1\n3 1\n101", PictureMode::kGray).pixels, ElementsAre(0, 255, 0));
  EXPECT_THAT(Decode("P4\n3 1\n\xa0", PictureMode::kGray).pixels, ElementsAre(0, 255, 0));
}

// Header, palette or none, rows from the bottom.
std::string Bmp(int width, int height, int depth, const std::string& palette,
                const std::string& pixels) {
  const auto number = [](uint32_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
    return text;
  };
  return "BM" + std::string(8, '\0') + number(static_cast<uint32_t>(54 + palette.size()), 4) +
         number(40, 4) + number(static_cast<uint32_t>(width), 4) +
         number(static_cast<uint32_t>(height), 4) + number(1, 2) +
         number(static_cast<uint32_t>(depth), 2) + std::string(16, '\0') +
         number(static_cast<uint32_t>(palette.size() / 4), 4) + number(0, 4) + palette + pixels;
}

TEST(Picture, ReadsBmp) {
  using std::string_literals::operator""s;
  const std::string color = "\x01\x02\x03\0\x04\x05\x06\0"s;  // two rows of one pixel, padded
  EXPECT_THAT(Decode(Bmp(1, 2, 24, "", color), PictureMode::kColor).pixels,
              ElementsAre(4, 5, 6, 1, 2, 3));
  EXPECT_THAT(Decode(Bmp(1, -2, 24, "", color), PictureMode::kColor).pixels,
              ElementsAre(1, 2, 3, 4, 5, 6));
  const std::string palette = "\x09\x08\x07\0\x06\x05\x04\0"s;
  EXPECT_THAT(Decode(Bmp(3, 1, 1, palette, "\x40\0\0\0"s), PictureMode::kColor).pixels,
              ElementsAre(9, 8, 7, 6, 5, 4, 9, 8, 7));
  EXPECT_EQ(Decode(Bmp(1, 1, 8, "\x05\x05\x05\0"s, "\0\0\0\0"s), PictureMode::kUnchanged).channels,
            1);
  EXPECT_THAT(ErrorText<DataError>(
                  [&] { Decode(Bmp(3, 1, 4, palette, "\xf0\0\0\0"s), PictureMode::kColor); }),
              HasSubstr("the BMP has a pixel that its palette does not"));
  EXPECT_THAT(
      ErrorText<DataError>([&] { Decode(Bmp(1, 1, 16, "", "\0\0\0\0"s), PictureMode::kColor); }),
      HasSubstr("a BMP of 16 bits with compression 0 cannot be read"));
}

TEST(Picture, ResizesByMixingNeighbours) {
  // Centres of the 4 outputs lie at -0.25, 0.25, 0.75, 1.25 of the inputs.
  const Picture two{1, 2, 1, {0, 100}};
  EXPECT_THAT(ResizePicture(two, 1, 4).pixels, ElementsAre(0, 25, 75, 100));
  EXPECT_THAT(ResizePicture(two, 3, 2).pixels, ElementsAre(0, 100, 0, 100, 0, 100));
  const Picture four{2, 2, 1, {10, 20, 30, 41}};
  EXPECT_THAT(ResizePicture(four, 1, 1).pixels, ElementsAre(25));
  const Picture color{1, 2, 3, {0, 50, 100, 200, 150, 100}};
  EXPECT_THAT(ResizePicture(color, 1, 1).pixels, ElementsAre(100, 100, 100));
  EXPECT_EQ(ResizePicture(color, 1, 2).pixels, color.pixels);
}

TEST(Picture, ResizeStaysWithinOneLevelOfTheExactMix) {
  const Picture in = DrawnPicture(13, 17, 3, 5);
  for (const auto& [height, width] : std::vector<std::pair<int, int>>{{29, 40}, {7, 5}, {13, 3}}) {
    const Picture out = ResizePicture(in, height, width);
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        const double at_y = std::clamp((y + 0.5) * 13 / height - 0.5, 0.0, 12.0);
        const double at_x = std::clamp((x + 0.5) * 17 / width - 0.5, 0.0, 16.0);
        const int y0 = static_cast<int>(at_y), x0 = static_cast<int>(at_x);
        const int y1 = std::min(y0 + 1, 12), x1 = std::min(x0 + 1, 16);
        const double fy = at_y - y0, fx = at_x - x0;
        for (int c = 0; c < 3; ++c) {
          const auto v = [&](int row, int column) {
            return static_cast<double>(in.pixels[static_cast<size_t>((row * 17 + column) * 3 + c)]);
          };
          const double exact = (1 - fy) * ((1 - fx) * v(y0, x0) + fx * v(y0, x1)) +
                               fy * ((1 - fx) * v(y1, x0) + fx * v(y1, x1));
          EXPECT_NEAR(out.pixels[static_cast<size_t>((y * width + x) * 3 + c)], exact, 1);
        }
      }
    }
  }
}

std::vector<std::string> OneOfEachKind() {
  using std::string_literals::operator""s;
  return {EncodePicture(DrawnPicture(9, 11, 3), "png"),
          EncodePicture(DrawnPicture(9, 11, 3), "jpg"),
          WithExif(EncodePicture(DrawnPicture(4, 3, 1), "jpg"), Exif(3, true)),
          Bmp(1, 2, 24, "", "\x01\x02\x03\0\x04\x05\x06\0"s),
          "P6 2 1 255\n\x01\x02\x03\x04\x05\x06",
          "P3 1 1 255 1 2 3 "};
}

TEST(Picture, RefusesEveryPictureThatIsCutOff) {
  for (const std::string& whole : OneOfEachKind()) {
    EXPECT_NO_THROW(Decode(whole, PictureMode::kColor));
    const bool text = whole.starts_with("P3");
    const size_t last = text ? whole.size() - 3 : whole.size();  // "3 " may lose its blank
    for (size_t length = 0; length < last; ++length) {
      EXPECT_THROW(Decode(whole.substr(0, length), PictureMode::kColor), DataError)
          << length << " of " << whole.size() << " bytes";
    }
  }
}

TEST(Picture, SurvivesDamage) {
  RandomSequence random(7);
  int refused = 0;
  for (const std::string& whole : OneOfEachKind()) {
    for (int i = 0; i < 400; ++i) {
      std::string bad = whole;
      for (int k = 0; k < 3; ++k) {
        bad[random.NextBelow(bad.size())] = static_cast<char>(random.Next32());
      }
      try {
        Decode(bad, static_cast<PictureMode>(i % 3));
      } catch (const DataError&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(Picture, AsksForNoMemoryThatTheFileCannotFill) {
  const auto text = [](const std::string& bytes) {
    return ErrorText<DataError>([&] { Decode(bytes, PictureMode::kColor); });
  };
  std::string png = Png(1, 8, 2, {"\x01\x02\x03"});
  const auto resized = [&](uint32_t width, uint32_t height) {
    std::string header = BigEndian(width) + BigEndian(height) + "\x08\x02" + std::string(3, '\0');
    return png.substr(0, 8) + Chunk("IHDR", header) + png.substr(8 + 25);
  };
  EXPECT_THAT(text(resized(16000, 16000)), HasSubstr("bytes cannot hold"));
  EXPECT_THAT(text(resized(1000000, 1000000)), HasSubstr("at most 268435456 pixels are allowed"));
  EXPECT_THAT(text(resized(4000000000u, 1)), StartsWith("file: error: the PNG cannot be read"));
  EXPECT_THAT(text("P6 1000000 1000000 255\n"), HasSubstr("at most 268435456 pixels are allowed"));
  EXPECT_THAT(text("P6 10000 10000 255\nabc"), HasSubstr("the PNM is cut off"));
  EXPECT_THAT(text(Bmp(10000, 10000, 24, "", "abc")), HasSubstr("the BMP is cut off"));
  std::string jpeg = EncodePicture(DrawnPicture(8, 8, 1), "jpg");
  const size_t frame = jpeg.find("\xff\xc0");
  jpeg.replace(frame + 5, 4, "\x3f\xff\x3f\xff");  // 16383 x 16383
  EXPECT_THAT(text(jpeg), HasSubstr("bytes cannot hold"));
}

TEST(Picture, NamesTheFile) {
  const TestFolder folder;
  EXPECT_THAT(ErrorText<DataError>([&] { ReadPicture(folder / "no.png", PictureMode::kColor); }),
              StartsWith((folder / "no.png") + ": error: "));
  WriteFileAtomically(folder / "bad.jpg", "\xff\xd8\xff");
  EXPECT_THAT(ErrorText<DataError>([&] { ReadPicture(folder / "bad.jpg", PictureMode::kColor); }),
              StartsWith((folder / "bad.jpg") + ": error: the JPEG cannot be read"));
  EXPECT_THAT(ErrorText<DataError>([&] { ReadPicture(folder / "", PictureMode::kColor); }),
              HasSubstr("error: "));
}

TEST(Picture, EncodesOnlyWhatItCan) {
  EXPECT_EQ(ErrorText<ConfigError>([] { EncodePicture(DrawnPicture(2, 2, 3), "gif"); }),
            "error: pictures cannot be encoded as \"gif\"\n  fix: use jpg, jpeg or png");
  EXPECT_THAT(ErrorText<ConfigError>([] { EncodePicture(DrawnPicture(2, 2, 4), "jpg"); }),
              HasSubstr("a JPEG cannot hold 4 channels"));
}

}  // namespace
}  // namespace carafe
