// The LMDB reader and writer against each other and against broken folders.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "carafe/base/error.h"
#include "carafe/base/file.h"
#include "carafe/base/random.h"
#include "carafe/data/database.h"
#include "carafe/data/database_writer.h"
#include "tests/support/error_text.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

void Write(const std::string& path,
           const std::vector<std::pair<std::string, std::string>>& records) {
  const auto writer = NewLmdbWriter(path);
  for (const auto& [key, value] : records) writer->Put(key, value);
  writer->Finish();
}

std::string KeyOf(int i) { return fmt::format("{:08d}", i); }

TEST(Lmdb, ReadsBackWhatWasWrittenInOrderOfKeys) {
  const TestFolder folder;
  const std::string path = folder / "db";
  Write(path, {{"b", "two"}, {"a", "one"}, {"d", ""}, {"c", std::string(100000, 'x')}});
  const auto source = OpenLmdb(path);
  EXPECT_EQ(source->name(), path);
  ASSERT_EQ(source->size(), 4);
  EXPECT_EQ(source->Read(2).value, std::string(100000, 'x'));
  EXPECT_EQ(source->Read(0).key, "a");
  EXPECT_EQ(source->Read(0).value, "one");
  EXPECT_EQ(source->Read(1).key, "b");
  EXPECT_EQ(source->Read(3).value, "");
  EXPECT_THROW(source->Read(4), InternalError);
}

TEST(Lmdb, FirstRecordIsTheSameBeforeAndAfterIndexing) {
  const TestFolder folder;
  Write(folder / "db", {{"k1", "one"}, {"k2", "two"}});
  const auto source = OpenLmdb(folder / "db");
  const Record before = source->Read(0);
  source->Read(1);
  EXPECT_EQ(source->Read(0).value.data(), before.value.data());
  EXPECT_EQ(before.value, "one");
}

TEST(Lmdb, GrowsItsMapOverManyBatches) {
  const TestFolder folder;
  const std::string value(70000, 'v');
  {
    const auto writer = NewLmdbWriter(folder / "db");
    for (int i = 0; i < 2500; ++i) writer->Put(KeyOf(i), value + KeyOf(i));  // 175 MB
    EXPECT_EQ(writer->records(), 2500);
    writer->Finish();
  }
  const auto source = OpenLmdb(folder / "db");
  ASSERT_EQ(source->size(), 2500);
  for (int i = 0; i < 2500; i += 83) {
    EXPECT_EQ(source->Read(i).key, KeyOf(i));
    EXPECT_EQ(source->Read(i).value.substr(70000), KeyOf(i));
  }
}

TEST(Lmdb, OpensTheSameDatabaseTwiceAndWithoutWritePermission) {
  const TestFolder folder;
  const std::string path = folder / "db";
  Write(path, {{"a", "1"}});
  fs::permissions(path + "/data.mdb", fs::perms::owner_read);
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_exec);
  const auto first = OpenLmdb(path);
  const auto second = OpenLmdb(path);
  EXPECT_EQ(first->Read(0).value, second->Read(0).value);
  EXPECT_FALSE(fs::exists(path + "/lock.mdb"));
  fs::permissions(path, fs::perms::owner_all);
}

TEST(Lmdb, MissingPathSaysFromWhereItWasLookedFor) {
  const std::string text = ErrorText<DataError>([] { OpenLmdb("no/such_lmdb"); });
  EXPECT_EQ(text,
            "no/such_lmdb: error: no such folder; looked for it from " +
                fs::current_path().string() +
                ", as relative paths start at the working directory\n  fix: run from the folder "
                "that the path is relative to, or make the database first, e.g. with `carafe "
                "digits --out DIR` or `carafe convert_mnist_data IMAGES LABELS DB`");
}

TEST(Lmdb, RefusesAFileAndAFolderWithoutDatabase) {
  const TestFolder folder;
  WriteFileAtomically(folder / "file", "text");
  EXPECT_EQ(ErrorText<DataError>([&] { OpenLmdb(folder / "file"); }),
            (folder / "file") +
                ": error: this is a file; an LMDB is a folder that holds data.mdb\n  fix: give the "
                "path of the folder");
  fs::create_directory(folder / "empty");
  EXPECT_THAT(ErrorText<DataError>([&] { OpenLmdb(folder / "empty"); }),
              StartsWith((folder / "empty") +
                         ": error: not an LMDB: the folder holds no data.mdb\n  fix: check the "
                         "path and the backend"));
}

TEST(Lmdb, RefusesAnotherKindOfFile) {
  const TestFolder folder;
  fs::create_directory(folder / "db");
  for (const std::string& content :
       {std::string(), std::string("SQLite"), std::string(9000, 'z')}) {
    WriteFileAtomically(folder / "db/data.mdb", content);
    EXPECT_THAT(
        ErrorText<DataError>([&] { OpenLmdb(folder / "db"); }),
        StartsWith((folder / "db/data.mdb") + ": error: this file is not an LMDB database"));
  }
}

TEST(Lmdb, RefusesAnEmptyDatabase) {
  const TestFolder folder;
  Write(folder / "db", {});
  EXPECT_THAT(ErrorText<DataError>([&] { OpenLmdb(folder / "db"); }),
              StartsWith((folder / "db") + ": error: the database is empty\n  fix: make it again"));
}

TEST(Lmdb, RefusesAFileThatWasCutOff) {
  const TestFolder folder;
  Write(folder / "db", {{"a", std::string(50000, 'x')}, {"b", std::string(50000, 'y')}});
  fs::resize_file(folder / "db/data.mdb", 40000);
  EXPECT_THAT(
      ErrorText<DataError>([&] { OpenLmdb(folder / "db"); }),
      HasSubstr("data.mdb: error: the file is cut off: it has 40000 bytes, its header says"));
}

TEST(Lmdb, NamesARecordWhoseLengthLeadsOutOfTheFile) {
  const TestFolder folder;
  Write(folder / "db", {{"first", "ok"}, {"second", std::string(20000, 'y')}});
  // A node is: length of the value (4 bytes), flags (2), length of the key (2), key.
  std::string content = ReadFile(folder / "db/data.mdb");
  const size_t key = content.find("second");
  ASSERT_NE(key, std::string::npos);
  content.replace(key - 8, 4, "\xff\xff\xff\x7f");
  WriteFileAtomically(folder / "db/data.mdb", content);
  const auto source = OpenLmdb(folder / "db");
  EXPECT_EQ(
      ErrorText<DataError>([&] { source->Read(1); }),
      (folder / "db") +
          ": record 1: error: (key \"second\") reaches beyond the end of the file\n  fix: the "
          "database is damaged; copy or make it again");
}

// Opens the database, reads all records, and returns the error.
std::string ReadAllError(const std::string& path) {
  return ErrorText<DataError>([&] {
    const auto source = OpenLmdb(path);
    for (int64_t i = 0; i < source->size(); ++i) source->Read(i);
  });
}

// Values of both kinds: on pages of the tree, and (from 2 KB on) on pages of their own.
void WriteTree(const std::string& path) {
  std::vector<std::pair<std::string, std::string>> records;
  for (int i = 0; i < 1200; ++i)
    records.emplace_back(KeyOf(i), std::string(i % 40 == 0 ? 3000 : 300, static_cast<char>(i)));
  Write(path, records);
}

constexpr size_t kPage = 4096;

TEST(Lmdb, NamesTheDatabaseWhereOnePageIsZeros) {
  const TestFolder folder;
  const std::string path = folder / "db", file = path + "/data.mdb";
  WriteTree(path);
  ASSERT_EQ(ReadAllError(path), "no error");
  const std::string whole = ReadFile(file);
  int refused = 0;
  for (size_t page = 0; page < whole.size() / kPage; ++page) {
    std::string damaged = whole;
    std::fill_n(damaged.begin() + static_cast<std::ptrdiff_t>(page * kPage), kPage, '\0');
    WriteFileAtomically(file, damaged);
    const std::string error = ReadAllError(path);
    if (error == "no error") continue;  // a page that the last transaction does not use
    ++refused;
    EXPECT_THAT(error, HasSubstr(path)) << "page " << page;
  }
  // All but those that hold free pages or older versions of a branch.
  EXPECT_GT(refused, static_cast<int>(whole.size() / kPage) * 9 / 10);
}

// Seeded: 400 files, each with up to 8 bytes of its tree changed.
TEST(Lmdb, DamageAtRandomGivesAnErrorOrNothing) {
  const TestFolder folder;
  const std::string path = folder / "db", file = path + "/data.mdb";
  WriteTree(path);
  const std::string whole = ReadFile(file);
  RandomSequence random(20);
  int refused = 0;
  for (int i = 0; i < 400; ++i) {
    std::string damaged = whole;
    const size_t page = random.NextBelow(i % 4 == 0 ? 2 : whole.size() / kPage) * kPage;
    for (int n = 0; n < 8; ++n) {
      const size_t within = random.NextBelow(n % 2 == 0 ? 160 : kPage);
      damaged[page + within] = static_cast<char>(random.NextBelow(256));
    }
    WriteFileAtomically(file, damaged);
    const std::string error = ReadAllError(path);
    if (error == "no error") continue;
    ++refused;
    EXPECT_THAT(error, HasSubstr(path));
  }
  EXPECT_GT(refused, 100);
}

TEST(LmdbWriter, RefusesAnExistingPath) {
  const TestFolder folder;
  Write(folder / "db", {{"a", "1"}});
  EXPECT_EQ(ErrorText<DataError>([&] { NewLmdbWriter(folder / "db"); }),
            (folder / "db") + ": error: exists already\n  fix: remove it, or choose another name");
  EXPECT_EQ(OpenLmdb(folder / "db")->size(), 1);
}

TEST(LmdbWriter, LeavesNothingBehindUnlessFinished) {
  const TestFolder folder;
  {
    const auto writer = NewLmdbWriter(folder / "sub/db");
    for (int i = 0; i < 1500; ++i) writer->Put(KeyOf(i), "value");
  }
  EXPECT_TRUE(fs::is_empty(folder / "sub"));
}

TEST(LmdbWriter, RefusesTheSameKeyTwiceAndUnusableKeys) {
  const TestFolder folder;
  EXPECT_EQ(
      ErrorText<DataError>([&] {
        Write(folder / "db", {{"a", "1"}, {"b", "2"}, {"a", "3"}});
      }),
      (folder / "db") +
          ": record 2: error: the key \"a\" was written before\n  fix: give every record a key "
          "of its own");
  EXPECT_EQ(ErrorText<DataError>([&] {
              Write(folder / "db", {{std::string(600, 'k'), "1"}});
            }),
            (folder / "db") +
                ": record 0: error: a key has 600 bytes\n  fix: use keys of 1 to 511 bytes");
  EXPECT_FALSE(fs::exists(folder / "db"));
}

TEST(LmdbWriter, SaysWhenItMayNotWrite) {
  const TestFolder folder;
  WriteFileAtomically(folder / "file", "text");
  EXPECT_THAT(ErrorText<DataError>([&] { NewLmdbWriter(folder / "file/db"); }),
              HasSubstr("cannot be made: Not a directory\n  fix: choose a place"));
}

TEST(OpenDatabase, TakesTheBackendThatIsGivenAndLevelDbWhereNoneIs) {
  LayerParameter layer;
  const Place place = ParseText("data_param { source: \"db\" }", "net.prototxt", &layer);
  const SettingsLocation location{"layer \"d\" (Data)", place};
  const TestFolder folder;
  const std::string path = folder / "db";
  layer.mutable_data_param()->set_source(path);
  Write(path, {{"a", "1"}});
  EXPECT_THAT(ErrorText<DataError>([&] { OpenDatabase(layer.data_param(), location); }),
              StartsWith(path + ": error: not a LevelDB: the folder holds no CURRENT"));
  layer.mutable_data_param()->set_backend(DataParameter::LMDB);
  EXPECT_EQ(OpenDatabase(layer.data_param(), location)->Read(0).value, "1");
  layer.mutable_data_param()->clear_source();
  EXPECT_THAT(ErrorText<ConfigError>([&] { OpenDatabase(layer.data_param(), location); }),
              HasSubstr("layer \"d\" (Data): source is missing\n  fix: give the path"));
}

TEST(OpenDatabase, RefusesAnUnknownBackend) {
  EXPECT_EQ(ErrorText<ConfigError>([] { OpenDatabase("sqlite", "db"); }),
            "error: the backend \"sqlite\" is unknown\n  fix: use lmdb or leveldb");
}

}  // namespace
}  // namespace carafe
