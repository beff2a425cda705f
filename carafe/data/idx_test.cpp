#include "carafe/data/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>

#include "carafe/base/error.h"
#include "carafe/base/file.h"
#include "carafe/data/database.h"
#include "carafe/data/datum.h"
#include "tests/support/error_text.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string BigEndian(std::initializer_list<uint32_t> numbers) {
  std::string bytes;
  for (const uint32_t n : numbers) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(n >> shift));
  }
  return bytes;
}

const std::string kImages = BigEndian({0x803, 2, 1, 3}) + std::string("\x01\x02\xff\x04\x05\x06");
const std::string kLabels = BigEndian({0x801, 2}) + std::string("\x07\x00", 2);

void WriteGz(const std::string& path, const std::string& content) {
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
  gzclose(file);
}

TEST(Idx, ReadsPlainAndGzippedFiles) {
  const TestFolder folder;
  WriteFileAtomically(folder / "plain", kImages);
  WriteGz(folder / "images.gz", kImages);
  WriteGz(folder / "labels.gz", kLabels);
  for (const std::string name : {"plain", "images.gz"}) {
    const IdxImages images = ReadIdxImages(folder / name);
    EXPECT_EQ(images.count, 2);
    EXPECT_EQ(images.height, 1);
    EXPECT_EQ(images.width, 3);
    EXPECT_THAT(images.pixels, ElementsAre(1, 2, 255, 4, 5, 6));
  }
  EXPECT_THAT(ReadIdxLabels(folder / "labels.gz"), ElementsAre(7, 0));
}

TEST(Idx, ConvertsAsCaffeDoes) {
  const TestFolder folder;
  WriteFileAtomically(folder / "images", kImages);
  WriteFileAtomically(folder / "labels", kLabels);
  EXPECT_EQ(ConvertMnist(folder / "images", folder / "labels", folder / "db"), 2);
  const auto source = OpenLmdb(folder / "db");
  ASSERT_EQ(source->size(), 2);
  EXPECT_EQ(source->Read(1).key, "00000001");
  Datum storage;
  const DatumView view = ReadDatum(*source, 0, &storage);
  EXPECT_EQ(view.SizeText(), "1x1x3");
  EXPECT_EQ(view.label, 7);
  EXPECT_THAT(view.bytes, ElementsAre(1, 2, 255));
  EXPECT_EQ(ReadDatum(*source, 1, &storage).label, 0);
  EXPECT_TRUE(storage.has_label());
}

TEST(Idx, RefusesOtherAndBrokenFiles) {
  const TestFolder folder;
  const auto text = [&](const std::string& content) {
    WriteFileAtomically(folder / "f", content);
    return ErrorText<DataError>([&] { ReadIdxImages(folder / "f"); });
  };
  EXPECT_EQ(
      text(kLabels),
      (folder / "f") +
          ": error: not an IDX file of images: it begins with 0x00000801, not 0x00000803; "
          "this one holds labels\n  fix: check which file is which: images first, then labels");
  EXPECT_THAT(text("<html>"), HasSubstr("it begins with 0x3c68746d, not 0x00000803\n"));
  EXPECT_EQ(text(kImages.substr(0, 20)),
            (folder / "f") +
                ": error: the file is cut off: it ends before the data that its header speaks of\n"
                "  fix: get or unpack the file again");
  EXPECT_THAT(text(""), HasSubstr("the file is cut off"));
  EXPECT_THAT(text(kImages + "x"),
              HasSubstr("there are more data than the 6 bytes that the header speaks of"));
  EXPECT_THAT(text(BigEndian({0x803, 0, 28, 28})),
              HasSubstr("the header speaks of 0 images of 28x28"));
  EXPECT_THAT(text(BigEndian({0x803, ~0u, ~0u, ~0u})),
              HasSubstr("speaks of 4294967295 images of 4294967295x4294967295"));
  EXPECT_THAT(text(BigEndian({0x803, 1, ~0u, 1 << 20})), HasSubstr("the file is cut off"));
  EXPECT_THAT(ErrorText<DataError>([&] { ReadIdxLabels(folder / "none"); }),
              StartsWith((folder / "none") +
                         ": error: the file cannot be read: No such file or directory"));
  EXPECT_THAT(ErrorText<DataError>([&] { ReadIdxLabels(folder / ""); }), HasSubstr("a folder"));
}

TEST(Idx, RefusesADamagedArchive) {
  const TestFolder folder;
  WriteGz(folder / "images.gz", BigEndian({0x803, 100, 10, 10}) + std::string(10000, 'p'));
  std::string content = ReadFile(folder / "images.gz");
  WriteFileAtomically(folder / "short.gz", content.substr(0, content.size() / 2));
  EXPECT_THAT(ErrorText<DataError>([&] { ReadIdxImages(folder / "short.gz"); }),
              HasSubstr("the file is cut off"));
  content[content.size() - 8] ^= 1;  // the checksum
  WriteFileAtomically(folder / "bad.gz", content);
  EXPECT_THAT(ErrorText<DataError>([&] { ReadIdxImages(folder / "bad.gz"); }),
              HasSubstr("reading failed"));
}

TEST(Idx, RefusesLabelsOfAnotherSet) {
  const TestFolder folder;
  WriteFileAtomically(folder / "images", kImages);
  WriteFileAtomically(folder / "labels", BigEndian({0x801, 1}) + "x");
  EXPECT_EQ(ErrorText<DataError>(
                [&] { ConvertMnist(folder / "images", folder / "labels", folder / "db"); }),
            (folder / "labels") + ": error: there are 1 labels for the 2 images of " +
                (folder / "images") + "\n  fix: give the labels that belong to the images");
  EXPECT_FALSE(std::filesystem::exists(folder / "db"));
}

}  // namespace
}  // namespace carafe
