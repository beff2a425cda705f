#include "carafe/data/text_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "carafe/data/datum.h"
#include "tests/support/error_text.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(TextData, StretchesLieSideBySideInTheOrderOfTime) {
  const TestFolder folder;
  // 11 characters, 2 stretches of 4: "abcd" -> "bcde", "efgh" -> "fghi"; the rest is left out.
  EXPECT_EQ(WriteTextDatabase("abcdefghijk", "text", {2, 2}, folder / "db"), 8);
  const std::unique_ptr<Database> source = OpenLmdb(folder / "db");
  std::string seen, next, goes_on;
  Datum datum;
  for (int64_t i = 0; i < source->size(); ++i) {
    const DatumView record = ReadDatum(*source, i, &datum);
    EXPECT_EQ(record.SizeText(), "2x1x1");
    seen += static_cast<char>(record.bytes[0]);
    goes_on += static_cast<char>('0' + record.bytes[1]);
    next += static_cast<char>(record.label);
  }
  EXPECT_EQ(seen, "aebfcgdh");
  EXPECT_EQ(next, "bfcgdhei");
  EXPECT_EQ(goes_on, "00111111");
}

TEST(TextData, TooShortOrForeignTextsAreErrorsAndLeaveNothing) {
  const TestFolder folder;
  EXPECT_THAT(ErrorText<DataError>([&] {
                WriteTextDatabase("abcdefgh", "short.txt", {2, 4}, folder / "db");
              }),
              HasSubstr("short.txt: error: 8 characters are too few for 2 sequences of 4 steps"));
  EXPECT_THAT(ErrorText<DataError>([&] {
                WriteTextDatabase("", "t", {1, 1}, folder / "db");
              }),
              HasSubstr("too few"));
  EXPECT_THAT(ErrorText<DataError>([&] {
                WriteTextDatabase("ab\xc3\xa4", "t", {1, 1}, folder / "db");
              }),
              HasSubstr("byte 2 is 0xc3, which is not ASCII"));
  EXPECT_THAT(ErrorText<ConfigError>([&] {
                WriteTextDatabase("abc", "t", {0, 1}, folder / "db");
              }),
              HasSubstr("0 sequences"));
  EXPECT_TRUE(std::filesystem::is_empty(folder / ""));
}

TEST(BigramEntropy, OfTextsThatCanBeCountedByHand) {
  EXPECT_EQ(BigramEntropy(""), 0);
  EXPECT_EQ(BigramEntropy("abababab"), 0);
  // a is followed by a and b once each, b by a: 2/3 log 2.
  EXPECT_NEAR(BigramEntropy("aaba"), 2.0 / 3 * std::log(2.0), 1e-12);
}

}  // namespace
}  // namespace carafe
