// Pictures and CIFAR files made into databases, and their mean.
#include "carafe/data/imageset.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "carafe/data/cifar.h"
#include "carafe/data/database_writer.h"
#include "carafe/data/datum.h"
#include "carafe/data/idx.h"
#include "carafe/data/mean_file.h"
#include "tests/support/drawn_picture.h"
#include "tests/support/error_text.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ImagesetOptions OptionsOf(const TestFolder& folder) {
  return {.root = folder / "", .list = folder / "list.txt", .database = folder / "db"};
}

void WriteSet(const TestFolder& folder, int count) {
  std::string list;
  for (int i = 0; i < count; ++i) {
    const std::string name = fmt::format("{}.png", i);
    WritePng(folder / name, DrawnPicture(2, 3, 3, i));
    list += fmt::format("{} {}\n", name, i % 4);
  }
  WriteFileAtomically(folder / "list.txt", list);
}

Datum DatumAt(const Database& source, int64_t index) {
  Datum datum;
  const Record record = source.Read(index);
  EXPECT_TRUE(datum.ParseFromArray(record.value.data(), static_cast<int>(record.value.size())));
  return datum;
}

TEST(ConvertImageset, WritesPlanesLabelsAndKeysToBothKindsOfDatabase) {
  for (const std::string backend : {"lmdb", "leveldb"}) {
    const TestFolder folder;
    WriteSet(folder, 3);
    ImagesetOptions options = OptionsOf(folder);
    options.backend = backend;
    EXPECT_EQ(ConvertImageset(options).written, 3);
    const auto source = OpenDatabase(backend, options.database);
    ASSERT_EQ(source->size(), 3);
    EXPECT_EQ(source->Read(2).key, "00000002_2.png");
    const Datum datum = DatumAt(*source, 2);
    EXPECT_EQ(datum.channels(), 3);
    EXPECT_EQ(datum.height(), 2);
    EXPECT_EQ(datum.width(), 3);
    EXPECT_EQ(datum.label(), 2);
    EXPECT_FALSE(datum.has_encoded());
    EXPECT_EQ(datum.data(), PlanesOf(DrawnPicture(2, 3, 3, 2)));
  }
}

TEST(ConvertImageset, KeepsFilesThatNeedNoChangeAndEncodesOthers) {
  const TestFolder folder;
  WriteSet(folder, 1);
  ImagesetOptions options = OptionsOf(folder);
  options.encoded = true;
  ConvertImageset(options);
  Datum datum = DatumAt(*OpenLmdb(options.database), 0);
  EXPECT_TRUE(datum.encoded());
  EXPECT_FALSE(datum.has_channels());
  EXPECT_EQ(datum.data(), ReadFile(folder / "0.png"));
  options.database = folder / "jpg";
  options.encode_type = "jpg";
  ConvertImageset(options);
  datum = DatumAt(*OpenLmdb(options.database), 0);
  EXPECT_TRUE(datum.data().starts_with("\xff\xd8\xff"));
  options.database = folder / "resized";
  options.encode_type = "png";
  options.resize_height = 5;
  options.resize_width = 4;
  ConvertImageset(options);
  const auto source = OpenLmdb(options.database);
  EXPECT_EQ(ReadDatum(*source, 0, &datum).SizeText(), "3x5x4");
}

TEST(ConvertImageset, ShufflesByItsSeed) {
  const TestFolder folder;
  WriteSet(folder, 30);
  ImagesetOptions options = OptionsOf(folder);
  options.shuffle = true;
  std::vector<std::string> orders;
  for (const uint64_t seed : {1, 1, 2}) {
    options.seed = seed;
    options.database = folder / fmt::format("db{}", orders.size());
    ConvertImageset(options);
    const auto source = OpenLmdb(options.database);
    std::vector<std::string> names;
    std::string order;
    for (int64_t i = 0; i < 30; ++i) {
      names.emplace_back(source->Read(i).key.substr(9));
      order += names.back() + " ";
    }
    orders.push_back(order);
    std::sort(names.begin(), names.end());
    EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
  }
  EXPECT_EQ(orders[0], orders[1]);
  EXPECT_NE(orders[0], orders[2]);
}

TEST(ConvertImageset, SkipsPicturesThatCannotBeReadButNotAllOfThem) {
  const TestFolder folder;
  WriteSet(folder, 3);
  WriteFileAtomically(folder / "1.png", "nonsense");
  ImagesetOptions options = OptionsOf(folder);
  options.gray = true;
  const ImagesetResult result = ConvertImageset(options);
  EXPECT_EQ(result.written, 2);
  EXPECT_EQ(result.skipped, 1);
  const auto source = OpenLmdb(options.database);
  EXPECT_EQ(source->Read(1).key, "00000002_2.png");
  EXPECT_EQ(DatumAt(*source, 1).channels(), 1);
  options.root = "elsewhere/";
  options.database = folder / "none";
  EXPECT_THAT(ErrorText<DataError>([&] { ConvertImageset(options); }),
              HasSubstr("none of its 3 pictures can be read from \"elsewhere/\""));
  EXPECT_FALSE(std::filesystem::exists(folder / "none"));
}

TEST(ConvertImageset, RefusesWhatCannotBeRight) {
  const TestFolder folder;
  WriteSet(folder, 2);
  WritePng(folder / "1.png", DrawnPicture(5, 5, 3));
  ImagesetOptions options = OptionsOf(folder);
  options.check_size = true;
  EXPECT_THAT(ErrorText<DataError>([&] { ConvertImageset(options); }),
              HasSubstr("record 1: error: 1.png has 75 bytes of pixels, those before have 18"));
  options = OptionsOf(folder);
  options.resize_height = 4;
  EXPECT_THAT(ErrorText<ConfigError>([&] { ConvertImageset(options); }),
              HasSubstr("--resize_height is 4 and --resize_width is 0"));
  options = OptionsOf(folder);
  options.encode_type = "tiff";
  EXPECT_THAT(ErrorText<ConfigError>([&] { ConvertImageset(options); }), HasSubstr("\"tiff\""));
  options = OptionsOf(folder);
  options.backend = "hdf5";
  EXPECT_THAT(ErrorText<ConfigError>([&] { ConvertImageset(options); }),
              HasSubstr("the backend \"hdf5\" is unknown"));
}

TEST(ComputeMean, AveragesEachPixel) {
  const TestFolder folder;
  const auto writer = NewDatabaseWriter("leveldb", folder / "db");
  Datum datum;
  for (int i = 0; i < 4; ++i) {
    SetPicture(Picture{1, 2, 1, {static_cast<uint8_t>(i), static_cast<uint8_t>(255 - i)}}, &datum);
    writer->Put(std::to_string(i), datum.SerializeAsString());
  }
  writer->Finish();
  WriteMeanFile(ComputeMean(*OpenLevelDb(folder / "db")), folder / "mean");
  const MeanImage mean = ReadMeanFile(folder / "mean");
  EXPECT_EQ(mean.channels, 1);
  EXPECT_EQ(mean.height, 1);
  EXPECT_EQ(mean.width, 2);
  EXPECT_THAT(mean.values, ElementsAre(1.5f, 253.5f));
}

TEST(ComputeMean, NamesARecordOfAnotherSize) {
  const TestFolder folder;
  WriteSet(folder, 2);
  WritePng(folder / "1.png", DrawnPicture(5, 5, 3));
  ConvertImageset(OptionsOf(folder));
  EXPECT_THAT(ErrorText<DataError>([&] { ComputeMean(*OpenLmdb(folder / "db")); }),
              HasSubstr("record 1: error: (key \"00000001_1.png\") is 3x5x5 but the first record "
                        "is 3x2x3"));
}

void WriteCifar(const TestFolder& folder, int records) {
  int number = 0;
  for (const char* name : {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4",
                           "data_batch_5", "test_batch"}) {
    std::string content;
    for (int i = 0; i < records; ++i, ++number) {
      content += static_cast<char>(number % 10);
      content += std::string(3072, static_cast<char>(number));
    }
    WriteFileAtomically(folder / fmt::format("{}.bin", name), content);
  }
}

TEST(ConvertCifar, WritesBothSetsWithFiveDigitKeys) {
  for (const std::string backend : {"lmdb", "leveldb"}) {
    const TestFolder folder;
    WriteCifar(folder, 3);
    const CifarResult result = ConvertCifar(folder / "", folder / "out", backend);
    EXPECT_EQ(result.train, 15);
    EXPECT_EQ(result.test, 3);
    const auto train = OpenDatabase(backend, folder / "out/cifar10_train_" + backend);
    ASSERT_EQ(train->size(), 15);
    EXPECT_EQ(train->Read(14).key, "00014");
    const Datum datum = DatumAt(*train, 14);
    EXPECT_EQ(datum.label(), 4);
    EXPECT_EQ(datum.channels() * datum.height() * datum.width(), 3072);
    EXPECT_EQ(datum.data(), std::string(3072, 14));
  }
}

TEST(ConvertCifar, RefusesDamagedFiles) {
  const TestFolder folder;
  WriteCifar(folder, 2);
  WriteFileAtomically(folder / "data_batch_3.bin", std::string(5000, '\1'));
  EXPECT_THAT(ErrorText<DataError>([&] { ConvertCifar(folder / "", folder / "out", "lmdb"); }),
              HasSubstr("the file has 5000 bytes, which is not a whole number of records"));
  WriteFileAtomically(folder / "data_batch_3.bin", std::string(3073, '\x20'));
  EXPECT_THAT(ErrorText<DataError>([&] { ConvertCifar(folder / "", folder / "out", "lmdb"); }),
              HasSubstr("record 0: error: has the label 32; CIFAR-10 has 0 to 9"));
  EXPECT_TRUE(std::filesystem::is_empty(folder / "out"));
}

TEST(ConvertMnist, WritesLevelDbToo) {
  const TestFolder folder;
  using std::string_literals::operator""s;
  WriteFileAtomically(folder / "images", "\0\0\x08\x03\0\0\0\x01\0\0\0\x01\0\0\0\x02\x05\x06"s);
  WriteFileAtomically(folder / "labels", "\0\0\x08\x01\0\0\0\x01\x09"s);
  EXPECT_EQ(ConvertMnist(folder / "images", folder / "labels", folder / "db", "leveldb"), 1);
  const Datum datum = DatumAt(*OpenLevelDb(folder / "db"), 0);
  EXPECT_EQ(datum.label(), 9);
  EXPECT_EQ(datum.data(), "\x05\x06");
}

}  // namespace
}  // namespace carafe
