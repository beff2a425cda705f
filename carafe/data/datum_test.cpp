#include "carafe/data/datum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "carafe/base/error.h"
#include "tests/support/drawn_picture.h"
#include "tests/support/error_text.h"
#include "tests/support/memory_database.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

std::string TextOfError(const Datum& datum) {
  const MemoryDatabase source({{"k", datum.SerializeAsString()}});
  Datum storage;
  return ErrorText<DataError>([&] { ReadDatum(source, 0, &storage); });
}

Datum Bytes(int channels, int height, int width, const std::string& data) {
  Datum datum;
  datum.set_channels(channels);
  datum.set_height(height);
  datum.set_width(width);
  datum.set_data(data);
  return datum;
}

TEST(Datum, GivesBytesOrFloatsWithSizeAndLabel) {
  Datum bytes = Bytes(1, 2, 1, std::string("\xff\x00", 2)), floats = Bytes(1, 1, 3, "");
  bytes.set_label(7);
  for (const float value : {1.5f, -2.0f, 0.0f}) floats.add_float_data(value);
  const MemoryDatabase source(
      {{"a", bytes.SerializeAsString()}, {"b", floats.SerializeAsString()}});
  Datum storage;
  const DatumView first = ReadDatum(source, 0, &storage);
  EXPECT_EQ(first.SizeText(), "1x2x1");
  EXPECT_EQ(first.label, 7);
  EXPECT_THAT(first.bytes, ElementsAre(255, 0));
  EXPECT_TRUE(first.floats.empty());
  const DatumView second = ReadDatum(source, 1, &storage);
  EXPECT_EQ(second.label, 0);
  EXPECT_THAT(second.floats, ElementsAre(1.5f, -2.0f, 0.0f));
  EXPECT_TRUE(second.bytes.empty());
}

TEST(Datum, RefusesASizeThatDoesNotFit) {
  EXPECT_EQ(TextOfError(Bytes(3, 2, 2, "12345678901")),
            "memory: record 0: error: (key \"k\") says 3x2x2 (channels x height x width) but holds "
            "11 bytes\n  fix: the record is damaged or was made wrongly; make the database again");
  EXPECT_EQ(
      TextOfError(Bytes(0, 0, 0, "")),
      "memory: record 0: error: (key \"k\") says 0x0x0 (channels x height x width) but holds 0 "
      "floats\n  fix: the record is damaged or was made wrongly; make the database again");
}

TEST(Datum, RefusesSizesWhoseProductOverflowsOrIsNegative) {
  // 2^31-1 cubed is 2^93; modulo 2^64 products like 2^30 * 2^30 * 16 would come to 0.
  EXPECT_THAT(TextOfError(Bytes(1 << 30, 1 << 30, 16, "")),
              ::testing::HasSubstr("says 1073741824x1073741824x16"));
  EXPECT_THAT(TextOfError(Bytes(-1, -1, 4, "1234")), ::testing::HasSubstr("says -1x-1x4"));
}

TEST(Datum, RefusesBytesThatAreNoMessage) {
  const MemoryDatabase source(
      {{"good", Bytes(1, 1, 1, "x").SerializeAsString()}, {"bad", "\x0a\xff"}});
  Datum storage;
  EXPECT_EQ(ErrorText<DataError>([&] { ReadDatum(source, 1, &storage); }),
            "memory: record 1: error: (key \"bad\") is not a Datum message (2 bytes)\n  fix: the "
            "record is damaged, or the database was made for another program; make it again");
}

TEST(Datum, DecodesPicturesAsTheyAreOrAsAsked) {
  const Picture drawn = DrawnPicture(2, 3, 3, 10);
  Datum datum;
  datum.set_label(4);
  datum.set_data(EncodePicture(drawn, "png"));
  datum.set_encoded(true);
  const MemoryDatabase source({{"k", datum.SerializeAsString()}});
  Datum storage;
  const DatumView color = ReadDatum(source, 0, &storage);
  EXPECT_EQ(color.SizeText(), "3x2x3");
  EXPECT_EQ(color.label, 4);
  EXPECT_EQ(std::string(color.bytes.begin(), color.bytes.end()), PlanesOf(drawn));
  const DatumView gray = ReadDatum(source, 0, &storage, PictureMode::kGray);
  EXPECT_EQ(gray.SizeText(), "1x2x3");
  EXPECT_EQ(gray.bytes[0], 11);  // B G R = 10 11 12
}

TEST(Datum, NamesTheRecordOfAPictureThatCannotBeRead) {
  Datum datum = Bytes(3, 2, 2, "GIF89a");
  datum.set_encoded(true);
  EXPECT_EQ(TextOfError(datum),
            "memory: record 0: error: (key \"k\") not a picture that can be read: it begins with "
            "47 49 46 38\n  fix: use JPEG, PNG, BMP or PNM (PPM, PGM, PBM)");
}

}  // namespace
}  // namespace carafe
